//! From facts to a plan: a pure function. Each hook has a ladder of steps, best first; a step is to be tried, or ruled out
//! with the reason. What a try yields is only known when it is made: see [`super::attach`].

use std::{collections::BTreeMap, fmt};

use eviction_ebpf::abi::Rung;
use serde::Serialize;

use super::bundle;
use super::{
    facts::{Facts, Lockdown},
    family::Family,
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    ladders: BTreeMap<Family, Vec<Step>>,
}

impl Plan {
    /// The steps of one family, best first; none where nothing is known that sees it.
    pub fn ladder(&self, family: Family) -> &[Step] {
        self.ladders.get(&family).map_or(&[], Vec::as_slice)
    }

    /// Whether anything at all is worth trying.
    pub fn is_hopeless(&self) -> bool {
        let mut steps = self.ladders.values().flatten();
        steps.all(|step| step.to_try().next().is_none())
    }
}

/// One alternative. Its rungs are attached together, see [`Step::leader`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub rungs: Vec<Candidate>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub rung: Rung,
    pub excluded: Option<Reason>,
}

/// Why a rung is not even tried.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Reason {
    NotBuilt,
    NoPrivilege,
    NoBtf { detail: String },
    NoFunction { function: &'static str },
    NoKprobes,
    Copied { function: &'static str },
    ArgumentUnknown { function: &'static str },
    PerfForbidden { paranoid: i32 },
    NoTracepoint { tracepoint: &'static str },
    FieldsUnknown { tracepoint: &'static str },
    LayoutUnknown { member: String },
    Locked,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => write!(
                formatter,
                "this program was built without eBPF (EVICTION_SKIP_EBPF=1)"
            ),
            Self::NoPrivilege => write!(
                formatter,
                "CAP_BPF and CAP_PERFMON are missing: run as root or grant both"
            ),
            Self::NoBtf { detail } => write!(formatter, "{detail}"),
            Self::NoFunction { function } => {
                write!(formatter, "this kernel has no function {function}")
            }
            Self::NoKprobes => write!(
                formatter,
                "this kernel is built without kprobes (CONFIG_KPROBE_EVENTS)"
            ),
            Self::Copied { function } => write!(
                formatter,
                "the compiler has made copies of {function}, which fentry does not reach"
            ),
            Self::ArgumentUnknown { function } => {
                write!(
                    formatter,
                    "BTF does not tell which argument of {function} is the inode"
                )
            }
            Self::PerfForbidden { paranoid } => write!(
                formatter,
                "perf events of other processes are forbidden (kernel.perf_event_paranoid = {paranoid}): grant CAP_PERFMON"
            ),
            Self::NoTracepoint { tracepoint } => {
                write!(
                    formatter,
                    "no tracepoint {tracepoint}: its file system is not in this kernel, or not loaded yet"
                )
            }
            Self::FieldsUnknown { tracepoint } => write!(
                formatter,
                "BTF does not tell what the tracepoint {tracepoint} hands over"
            ),
            Self::LayoutUnknown { member } => {
                write!(formatter, "BTF does not tell where {member} lies")
            }
            Self::Locked => write!(
                formatter,
                "kernel lockdown is at `confidentiality`: eBPF may not read kernel memory"
            ),
        }
    }
}

impl Step {
    /// The rungs to try, in order.
    pub fn to_try(&self) -> impl Iterator<Item = Rung> {
        self.rungs
            .iter()
            .filter(|candidate| candidate.excluded.is_none())
            .map(|candidate| candidate.rung)
    }

    /// Page faults without the page cache would miss what is read and written: that step counts only with its first
    /// rung. File systems' tracepoints are independent of each other.
    pub fn leader(&self) -> Option<Rung> {
        self.rungs
            .first()
            .map(|candidate| candidate.rung)
            .filter(|rung| *rung == Rung::PerfFaults)
    }
}

pub fn plan(facts: &Facts) -> Plan {
    let blocked = blocked(facts);
    let candidate = |rung| Candidate {
        rung,
        excluded: blocked.clone().or_else(|| excluded(rung, facts)),
    };
    let step = |rungs: &[Rung]| Step {
        rungs: rungs.iter().copied().map(candidate).collect(),
    };
    let ladder = |family| LADDERS[family as usize].iter().copied().map(step).collect();
    Plan {
        ladders: Family::ALL
            .into_iter()
            .map(|family| (family, ladder(family)))
            .collect(),
    }
}

/// Best first; the rungs of one step are attached together. In the order of [`Family::ALL`].
const LADDERS: [&[&[Rung]]; Family::ALL.len()] = [
    &[
        &[Rung::FentryCharge],
        &[Rung::KprobeCharge],
        &[Rung::PerfFaults, Rung::TraceFilemap],
        &[Rung::TracePageAlloc],
    ],
    &[
        &[Rung::FentryInode],
        &[Rung::KprobeInode],
        &[Rung::TraceExt4, Rung::TraceXfs, Rung::TraceBtrfs],
    ],
    &[
        &[Rung::FentryFreed],
        &[Rung::KprobeFreed],
        &[Rung::TraceFreedExt4, Rung::TraceFreedBtrfs],
    ],
    &[
        &[Rung::FentryExt4Bytes],
        &[Rung::KprobeExt4Bytes],
        &[Rung::TraceExt4Bytes],
    ],
    // No fentry for functions of modules: aya 0.14 knows only the kernel's own BTF.
    &[&[Rung::KprobeXfsBytes], &[Rung::TraceXfsBytes]],
    &[&[Rung::KprobeBtrfsBytes], &[Rung::TraceBtrfsBytes]],
    // No tracepoint fires where tmpfs takes a page.
    &[&[Rung::FentryTmpfsBytes], &[Rung::KprobeTmpfsBytes]],
    &[
        &[Rung::FentryWritten],
        &[Rung::KprobeWritten],
        &[Rung::TraceWritten],
    ],
    // A tracepoint that sees every task, at next to no cost: there is nothing better to try first.
    &[&[Rung::TraceNewTask]],
    &[&[Rung::TraceOom, Rung::TraceReclaim, Rung::TraceCgroups]],
];

const INODE: &str = "inode_init_owner";

/// What rules out every rung alike.
fn blocked(facts: &Facts) -> Option<Reason> {
    if !facts.built {
        return Some(Reason::NotBuilt);
    }
    if !facts.capabilities.may_trace() {
        return Some(Reason::NoPrivilege);
    }
    (facts.lockdown == Lockdown::Confidentiality).then_some(Reason::Locked)
}

fn excluded(rung: Rung, facts: &Facts) -> Option<Reason> {
    let obstacle = bundle::obstacle(rung, facts);
    match rung {
        Rung::PerfFaults => perf(facts),
        Rung::FentryInode | Rung::KprobeInode | Rung::FentryWritten | Rung::KprobeWritten => {
            obstacle.or_else(|| argument(facts))
        }
        Rung::TraceOom => obstacle.or_else(|| unknown(&facts.offsets.victim, "mark_victim")),
        Rung::TraceCgroups => obstacle
            .or_else(|| unknown(&facts.offsets.cgroup, "cgroup_mkdir"))
            .or_else(|| unknown(&facts.offsets.memcg, "cgroup_mkdir")),
        _ => obstacle,
    }
}

fn argument(facts: &Facts) -> Option<Reason> {
    facts
        .offsets
        .inode_arg
        .is_none()
        .then_some(Reason::ArgumentUnknown { function: INODE })
}

fn unknown<T>(offsets: &Option<T>, tracepoint: &'static str) -> Option<Reason> {
    offsets
        .is_none()
        .then_some(Reason::FieldsUnknown { tracepoint })
}

fn perf(facts: &Facts) -> Option<Reason> {
    let free = facts.capabilities.perfmon || facts.capabilities.sys_admin;
    let paranoid = facts
        .perf_event_paranoid
        .filter(|level| *level >= 1 && !free)?;
    Some(Reason::PerfForbidden { paranoid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::facts::{Capabilities, Function};

    const HOST: &str = include_str!("../../tests/fixtures/facts/host-6.18.json");
    const GUESTS: [(&str, &str); 4] = [
        (
            "5.10",
            include_str!("../../tests/fixtures/facts/guest-5.10.json"),
        ),
        (
            "6.1",
            include_str!("../../tests/fixtures/facts/guest-6.1.json"),
        ),
        (
            "6.12",
            include_str!("../../tests/fixtures/facts/guest-6.12.json"),
        ),
        (
            "7.3",
            include_str!("../../tests/fixtures/facts/guest-7.3.json"),
        ),
    ];

    fn recorded(json: &str) -> Facts {
        serde_json::from_str(json).unwrap()
    }

    fn names(ladder: &[Step]) -> Vec<&'static str> {
        ladder
            .iter()
            .flat_map(Step::to_try)
            .map(Rung::name)
            .collect()
    }

    fn reasons(ladder: &[Step]) -> Vec<Reason> {
        ladder
            .iter()
            .flat_map(|step| &step.rungs)
            .filter_map(|candidate| candidate.excluded.clone())
            .collect()
    }

    #[test]
    fn every_guest_kernel_is_tried_from_fentry_down() {
        for (kernel, json) in GUESTS {
            let plan = plan(&recorded(json));
            let memory = [
                "fentry/page_counter_try_charge",
                "kprobe/page_counter_try_charge",
                "perf/page-faults",
                "raw_tp/mm_filemap_add_to_page_cache",
                "raw_tp/mm_page_alloc",
            ];
            assert_eq!(names(plan.ladder(Family::Memory)), memory, "{kernel}");
            let inodes = [
                "fentry/inode_init_owner",
                "kprobe/inode_init_owner",
                "raw_tp/ext4_allocate_inode",
            ];
            assert_eq!(names(plan.ladder(Family::Inodes)), inodes, "{kernel}");
            assert!(
                reasons(plan.ladder(Family::Inodes)).contains(&Reason::NoTracepoint {
                    tracepoint: "xfs_create"
                }),
                "{kernel}"
            );
        }
    }

    #[test]
    fn the_host_without_kprobes_leaves_them_out_and_watches_three_file_systems() {
        let plan = plan(&recorded(HOST));
        assert_eq!(reasons(plan.ladder(Family::Memory)), [Reason::NoKprobes]);
        assert_eq!(
            names(plan.ladder(Family::Memory))[..2],
            ["fentry/page_counter_try_charge", "perf/page-faults"]
        );
        let inodes = [
            "fentry/inode_init_owner",
            "raw_tp/ext4_allocate_inode",
            "raw_tp/xfs_create",
            "raw_tp/btrfs_inode_new",
        ];
        assert_eq!(names(plan.ladder(Family::Inodes)), inodes);
    }

    #[test]
    fn every_kernel_counts_tasks_and_tells_of_oom_kills_reclaim_and_cgroups() {
        for (kernel, json) in GUESTS.into_iter().chain([("6.18", HOST)]) {
            let plan = plan(&recorded(json));
            let pids = names(plan.ladder(Family::Pids));
            assert_eq!(pids, ["raw_tp/task_newtask"], "{kernel}");
            let told = [
                "raw_tp/mark_victim",
                "raw_tp/mm_vmscan_direct_reclaim_begin",
                "raw_tp/cgroup_mkdir",
            ];
            assert_eq!(names(plan.ladder(Family::Observations)), told, "{kernel}");
        }
    }

    #[test]
    fn without_types_nothing_is_read_from_a_victim_or_a_cgroup() {
        let mut facts = recorded(GUESTS[2].1);
        facts.offsets.victim = None;
        facts.offsets.cgroup = None;
        let observations = plan(&facts);
        let observations = observations.ladder(Family::Observations);
        assert_eq!(
            names(observations),
            ["raw_tp/mm_vmscan_direct_reclaim_begin"]
        );
        assert_eq!(
            reasons(observations),
            ["mark_victim", "cgroup_mkdir"].map(|tracepoint| Reason::FieldsUnknown { tracepoint })
        );
    }

    /// Each change of one fact, and the reasons that it adds on a 6.12 guest.
    #[test]
    fn each_missing_fact_rules_out_its_rungs_and_no_others() {
        type Change = fn(&mut Facts);
        let table: [(&str, Change, &[&str]); 7] = [
            (
                "built without",
                |facts| facts.built = false,
                &[
                    "perf/page-faults",
                    "raw_tp/mm_page_alloc",
                    "raw_tp/ext4_allocate_inode",
                ],
            ),
            (
                "no privilege",
                |facts| facts.capabilities = Capabilities::default(),
                &["perf/page-faults", "fentry/inode_init_owner"],
            ),
            (
                "confidentiality",
                |facts| facts.lockdown = Lockdown::Confidentiality,
                &["perf/page-faults", "raw_tp/mm_page_alloc"],
            ),
            (
                "no BTF",
                |facts| facts.btf_error = Some("gone".into()),
                &["fentry/page_counter_try_charge", "fentry/inode_init_owner"],
            ),
            (
                "no kprobes",
                |facts| facts.kprobes = false,
                &["kprobe/page_counter_try_charge", "kprobe/inode_init_owner"],
            ),
            (
                "no such function",
                |facts| {
                    facts
                        .functions
                        .insert("page_counter_try_charge".into(), Function::default());
                },
                &[
                    "fentry/page_counter_try_charge",
                    "kprobe/page_counter_try_charge",
                ],
            ),
            (
                "no argument",
                |facts| facts.offsets.inode_arg = None,
                &["fentry/inode_init_owner", "kprobe/inode_init_owner"],
            ),
        ];
        let whole = plan(&recorded(GUESTS[2].1));
        let everything: Vec<_> = names(whole.ladder(Family::Memory))
            .into_iter()
            .chain(names(whole.ladder(Family::Inodes)))
            .collect();
        for (name, change, gone) in table {
            let mut facts = recorded(GUESTS[2].1);
            change(&mut facts);
            let plan = plan(&facts);
            let left: Vec<_> = names(plan.ladder(Family::Memory))
                .into_iter()
                .chain(names(plan.ladder(Family::Inodes)))
                .collect();
            for rung in gone {
                assert!(!left.contains(rung), "{name}: {rung} is still tried");
            }
            let global = ["built without", "no privilege", "confidentiality"].contains(&name);
            let expected = if global {
                0
            } else {
                everything.len() - gone.len()
            };
            assert_eq!(left.len(), expected, "{name}: {left:?}");
        }
    }

    const CHARGE: &str = "page_counter_try_charge";

    #[test]
    fn case_58_a_function_with_copies_is_probed_and_not_traced() {
        let mut facts = recorded(GUESTS[1].1);
        let copies = vec![format!("{CHARGE}.isra.0"), format!("{CHARGE}.constprop.1")];
        facts.copies.insert(CHARGE.into(), copies.clone());
        facts.functions.insert(CHARGE.into(), Function::default());
        let plan = plan(&facts);
        assert_eq!(
            reasons(plan.ladder(Family::Memory)),
            [Reason::Copied { function: CHARGE }]
        );
        assert_eq!(
            names(plan.ladder(Family::Memory))[0],
            "kprobe/page_counter_try_charge"
        );
        assert_eq!(facts.symbols_of(CHARGE), copies);
    }

    #[test]
    fn perf_needs_its_capability_where_the_kernel_is_paranoid() {
        let mut facts = recorded(GUESTS[1].1);
        facts.capabilities = Capabilities {
            sys_admin: false,
            perfmon: false,
            bpf: true,
            sys_resource: false,
        };
        facts.perf_event_paranoid = Some(3);
        assert_eq!(perf(&facts), Some(Reason::PerfForbidden { paranoid: 3 }));
        facts.perf_event_paranoid = Some(-1);
        assert_eq!(perf(&facts), None);
    }

    #[test]
    fn reasons_name_the_thing_and_the_fix() {
        let reason = Reason::PerfForbidden { paranoid: 3 }.to_string();
        assert!(
            reason.contains("kernel.perf_event_paranoid = 3") && reason.contains("CAP_PERFMON"),
            "{reason}"
        );
        assert!(
            Reason::NoPrivilege
                .to_string()
                .contains("run as root or grant")
        );
    }
}
