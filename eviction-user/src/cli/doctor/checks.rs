//! The examination itself: every check is a fact with its fix.

use super::super::fs_args::FsArgs;
use super::signals::signals;
use super::{Findings, without_ebpf};
use crate::bpf::{
    AttachOptions, Attached, Family, HookReport, Lockdown, Reason, Standing, Step, plan,
};
use crate::cli::source;
use crate::sys::cgroup::{CgroupDir, Hierarchy, Version};
use crate::sys::pidfd;
use crate::sys::realtime::{self, RealtimeError};
use caps::{CapSet, Capability};
use serde::Serialize;
use std::path::PathBuf;

/// Killers that would compete with us (user case 77).
const OTHER_KILLERS: [&str; 5] = ["systemd-oomd", "earlyoom", "nohang", "oomd", "koordlet"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum State {
    /// Works and is used.
    Used,
    /// Would be there if a better one were not.
    Spare,
    /// Does not work here; something else does its job, less well.
    Absent,
    /// Would work with a privilege that is missing.
    NoPrivilege,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Check {
    /// What it is for: events of a family, kill, fast thread, node.
    pub(super) area: &'static str,
    pub(super) item: String,
    pub(super) state: State,
    pub(super) detail: String,
    pub(super) fix: Option<String>,
}

pub(super) fn examine(options: &AttachOptions, paths: &FsArgs) -> Findings {
    let facts = source::gather(options);
    let plan = plan(&facts);
    let attached = Attached::attach(&facts, &plan, options);
    let report = attached.report();

    let mut checks = signals(&attached, paths);
    if let Some(error) = &report.object {
        checks.push(Check {
            area: "memory events",
            item: "eBPF object".to_owned(),
            state: State::Absent,
            detail: error.clone(),
            fix: Some(
                "run as root on Linux 5.8 or later; RLIMIT_MEMLOCK must not forbid maps".to_owned(),
            ),
        });
    }
    for family in Family::ALL {
        let area = events_of(family);
        checks.extend(hook(area, plan.ladder(family), report.of(family)));
        if family == Family::Memory {
            checks.extend(without_ebpf::below_the_hooks(
                area,
                report.of(family),
                &facts,
            ));
        }
    }
    checks.push(lockdown(facts.lockdown));
    checks.extend(kill());
    checks.extend(fast_thread());
    checks.extend(node());
    Findings {
        kernel: facts.kernel.clone(),
        sources: Family::ALL
            .map(|family| (family.name(), report.of(family).source()))
            .into(),
        checks,
        facts,
    }
}

const fn events_of(family: Family) -> &'static str {
    match family {
        Family::Memory => "memory events",
        Family::Inodes => "inode events",
        Family::Freed => "inode frees",
        Family::Ext4Bytes => "ext4 space events",
        Family::XfsBytes => "xfs space events",
        Family::BtrfsBytes => "btrfs space events",
        Family::TmpfsBytes => "tmpfs space events",
        Family::WrittenBytes => "written space events",
        Family::Pids => "task events",
        Family::Observations => "observations",
    }
}

/// Each rung of a hook's ladder, best first.
fn hook(area: &'static str, ladder: &[Step], report: &HookReport) -> Vec<Check> {
    let rungs = ladder.iter().flat_map(|step| &step.rungs);
    rungs
        .map(|candidate| {
            let (state, detail, fix) = match report.standing(candidate) {
                Standing::Used(1) => (State::Used, "attached".to_owned(), None),
                Standing::Used(places) => (State::Used, format!("attached at {places} places"), None),
                Standing::Excluded(reason) => {
                    let privilege = matches!(reason, Reason::NoPrivilege | Reason::PerfForbidden { .. });
                    let state = if privilege { State::NoPrivilege } else { State::Absent };
                    (state, reason.to_string(), fix_of(reason))
                }
                Standing::Failed(error) => {
                    let fix = "the next rung does its job; nothing to be done unless this kernel can be replaced";
                    (State::Absent, error.to_owned(), Some(fix.to_owned()))
                }
                Standing::Spare => (State::Spare, "not needed: a better one is in use".to_owned(), None),
            };
            Check { area, item: candidate.rung.name().to_owned(), state, detail, fix }
        })
        .collect()
}

fn fix_of(reason: &Reason) -> Option<String> {
    let fix = match reason {
        Reason::NotBuilt => "build with `cargo xtask build` and without EVICTION_SKIP_EBPF",
        Reason::NoPrivilege => "run as root, or grant CAP_BPF and CAP_PERFMON",
        Reason::NoBtf { .. } => "use a kernel with CONFIG_DEBUG_INFO_BTF, or pass --btf FILE",
        Reason::NoKprobes => "use a kernel with CONFIG_KPROBES and CONFIG_KPROBE_EVENTS",
        Reason::PerfForbidden { .. } => "grant CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0",
        Reason::NoTracepoint { .. } => {
            "load the file system's module, if one of that kind is to be watched"
        }
        Reason::FieldsUnknown { .. } => {
            "use a kernel with CONFIG_DEBUG_INFO_BTF, or pass --btf FILE"
        }
        Reason::Locked => "boot with lockdown=integrity",
        Reason::LayoutUnknown { .. } => "use a kernel with CONFIG_DEBUG_INFO_BTF_MODULES",
        Reason::NoFunction { .. } | Reason::ArgumentUnknown { .. } | Reason::Copied { .. } => {
            return None;
        }
    };
    Some(fix.to_owned())
}

fn lockdown(lockdown: Lockdown) -> Check {
    let confidential = lockdown == Lockdown::Confidentiality;
    Check {
        area: "eBPF",
        item: "kernel lockdown".to_owned(),
        state: if confidential {
            State::Absent
        } else {
            State::Used
        },
        detail: format!("{lockdown:?}").to_lowercase(),
        fix: confidential.then(|| "boot with lockdown=integrity".to_owned()),
    }
}

fn kill() -> Vec<Check> {
    let mut checks = vec![capability(
        "kill",
        Capability::CAP_KILL,
        "kill the processes of others",
    )];
    match Hierarchy::detect() {
        Ok(hierarchy) => {
            checks.push(Check {
                area: "kill",
                item: "memory controller".to_owned(),
                state: State::Used,
                detail: format!(
                    "cgroup {:?} at {}",
                    hierarchy.version,
                    hierarchy.mount.display()
                )
                .to_lowercase(),
                fix: None,
            });
            checks.push(whole_cgroup(&hierarchy));
        }
        Err(e) => checks.push(Check {
            area: "kill",
            item: "memory controller".to_owned(),
            state: State::Absent,
            detail: e.to_string(),
            fix: Some("mount cgroup2 on /sys/fs/cgroup".to_owned()),
        }),
    }
    let mrelease = pidfd::has_process_mrelease();
    checks.push(Check {
        area: "kill",
        item: "process_mrelease".to_owned(),
        state: if mrelease { State::Used } else { State::Absent },
        detail: if mrelease {
            "memory of victims is reaped at once"
        } else {
            "victims free their memory themselves"
        }
        .to_owned(),
        fix: (!mrelease).then(|| "Linux 5.15 or later has it".to_owned()),
    });
    checks
}

fn whole_cgroup(hierarchy: &Hierarchy) -> Check {
    let (item, there, fix) = match hierarchy.version {
        // The root cgroup itself has no such file.
        Version::V2 => {
            let child = CgroupDir::open(&hierarchy.mount)
                .ok()
                .and_then(|root| root.children().into_iter().next());
            let there = child.is_some_and(|child| child.path().join("cgroup.kill").exists());
            (
                "cgroup.kill",
                there,
                "Linux 5.14 or later has it; until then the cgroup is frozen, killed, thawed",
            )
        }
        Version::V1 => (
            "freezer",
            hierarchy.freezer.is_some(),
            "mount the v1 freezer hierarchy; until then processes are killed in rounds until none is left",
        ),
    };
    Check {
        area: "kill",
        item: item.to_owned(),
        state: if there { State::Used } else { State::Absent },
        detail: if there {
            "whole cgroups at once"
        } else {
            "not there"
        }
        .to_owned(),
        fix: (!there).then(|| fix.to_owned()),
    }
}

fn fast_thread() -> Vec<Check> {
    // Asked on a thread that ends at once, so that this one stays as it is.
    let asked = std::thread::spawn(|| (realtime::schedule_first(), realtime::lock_memory())).join();
    let Ok((scheduled, locked)) = asked else {
        return Vec::new();
    };
    let fifo = match scheduled {
        Ok(scheduled) => (State::Used, format!("granted: {scheduled}"), None),
        Err(RealtimeError::Privilege(errno)) => (
            State::NoPrivilege,
            format!("refused ({errno})"),
            Some("grant CAP_SYS_NICE".to_owned()),
        ),
        Err(error @ RealtimeError::NoBudget { .. }) => {
            let fix = "write microseconds to cpu.rt_runtime_us of that cgroup and of each above it, or start in the root cpu cgroup";
            (State::NoPrivilege, error.to_string(), Some(fix.to_owned()))
        }
    };
    let lock = match locked {
        Ok(()) => (State::Used, "granted".to_owned(), None),
        Err(errno) => (
            State::NoPrivilege,
            format!("refused ({errno})"),
            Some("grant CAP_IPC_LOCK".to_owned()),
        ),
    };
    let check = |item: &str, (state, detail, fix)| Check {
        area: "fast thread",
        item: item.to_owned(),
        state,
        detail,
        fix,
    };
    vec![check("SCHED_FIFO", fifo), check("locked memory", lock)]
}

fn node() -> Vec<Check> {
    // Read, not stat: with psi=0 the file may be there and answer EOPNOTSUPP (user case 72).
    let psi = std::fs::read_to_string("/proc/pressure/memory");
    let mut checks = vec![Check {
        area: "node",
        item: "pressure stall information".to_owned(),
        state: if psi.is_ok() {
            State::Spare
        } else {
            State::Absent
        },
        detail: psi.map_or_else(
            |e| e.to_string(),
            |_| "readable; not needed for any decision".to_owned(),
        ),
        fix: None,
    }];
    for killer in running(&OTHER_KILLERS) {
        checks.push(Check {
            area: "node",
            item: killer.clone(),
            state: State::Absent,
            detail: "another memory killer runs here and may act first, by other rules".to_owned(),
            fix: Some(format!(
                "stop it, or keep the cgroups that {killer} watches apart from --root"
            )),
        });
    }
    checks
}

fn running(names: &[&str]) -> Vec<String> {
    let processes = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let comm = |path: PathBuf| {
        std::fs::read_to_string(path.join("comm"))
            .ok()
            .map(|c| c.trim().to_owned())
    };
    let mut found: Vec<_> = processes
        .filter_map(comm)
        .filter(|c| names.contains(&c.as_str()))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn capability(area: &'static str, capability: Capability, purpose: &str) -> Check {
    let has = caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
    Check {
        area,
        item: capability.to_string(),
        state: if has { State::Used } else { State::NoPrivilege },
        detail: format!("to {purpose}"),
        fix: (!has).then(|| format!("run as root, or grant {capability}")),
    }
}
