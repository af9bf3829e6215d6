//! Chooses what says "look now": eBPF, the kernel's own notifications, or the timer.

use super::{Exit, Failure};
use crate::agent::{Layered, TimerOnly};
use crate::bpf::{
    AttachOptions, Attached, CgroupFeed, Facts, FactsOptions, Family, HookReport, KernelSides,
    LogReader, Plan, Rung, Standing, Wanted, check_btf, plan,
};
use crate::host::Notices;
use crate::model::Resource;
use crate::ports::{LadderStep, Started};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EventsMode {
    /// eBPF events where the kernel allows them, else what it offers otherwise, else the timer.
    Auto,
    /// eBPF events, or do not start (exit code 3).
    Ebpf,
    /// The kernel's own notifications (PSI, memory.events, cgroup v1 eventfds) and the timer, without eBPF.
    Psi,
    /// The adaptive timer alone.
    Timer,
    /// Look at the monitoring interval only, as the kubelet does.
    None,
}

/// One of the three forms, and how it came to it.
pub(super) enum Source {
    Kernel(Box<KernelSource>),
    Notices(Box<Notices>, Started),
    Timer(TimerOnly, Started),
}

pub(super) struct KernelSource {
    /// Notifications speak for memory where no hook does.
    pub(super) events: Layered<KernelSides, Notices>,
    pub(super) how: Started,
    /// What the programs say, with `--bpf-log`.
    pub(super) log: Option<LogReader>,
    /// Where the kernel tells of cgroups that come and go.
    pub(super) cgroups: Option<CgroupFeed>,
}

/// What is to be watched.
pub(super) struct Target {
    pub(super) wanted: Wanted,
    pub(super) hierarchy: Hierarchy,
    pub(super) group: CgroupDir,
}

/// Attaches what the plan says. Must be called within a tokio runtime with I/O.
pub(super) fn open(
    mode: EventsMode,
    target: &Target,
    options: &AttachOptions,
) -> Result<Source, Failure> {
    let switched_off = |name| format!("kernel events are switched off (--events {name})");
    match mode {
        EventsMode::Auto | EventsMode::Ebpf => kernel(mode, target, options),
        EventsMode::Psi => {
            let why = switched_off("psi");
            let ladder = ruled_out(target, &why);
            Ok(notices(target, vec![why], ladder))
        }
        EventsMode::Timer => Ok(timer(target, TIMER, switched_off(TIMER))),
        EventsMode::None => Ok(timer(target, INTERVAL, switched_off("none"))),
    }
}

const TIMER: &str = "timer";
const INTERVAL: &str = "interval";

fn timer(target: &Target, name: &'static str, note: String) -> Source {
    Source::Timer(
        TimerOnly,
        Started {
            sources: sources(&target.wanted, |_| name),
            ladder: ruled_out(target, &note),
            notes: vec![note],
            metrics: None,
        },
    )
}

/// A step of each family that stands for all its hooks: nobody asked for them, and which could be had was not found out.
fn ruled_out(target: &Target, why: &str) -> Vec<LadderStep> {
    let families = target.wanted.families().into_iter();
    families
        .map(|family| LadderStep {
            family: family.name(),
            resource: resource(family),
            name: "ebpf",
            places: 0,
            why_not: Some(why.to_owned()),
        })
        .collect()
}

/// What a family's hooks see being used up.
fn resource(family: Family) -> Option<Resource> {
    match family {
        Family::Memory => Some(Resource::Memory),
        Family::Inodes => Some(Resource::Inodes),
        Family::Ext4Bytes
        | Family::XfsBytes
        | Family::BtrfsBytes
        | Family::TmpfsBytes
        | Family::WrittenBytes => Some(Resource::EphemeralStorage),
        Family::Pids => Some(Resource::Pids),
        Family::Freed | Family::Observations => None,
    }
}

/// Without eBPF, or where it came to nothing, as `notes` and `ladder` say.
fn notices(target: &Target, mut notes: Vec<String>, mut ladder: Vec<LadderStep>) -> Source {
    let opened = Notices::open(&target.hierarchy, &target.group);
    ladder.extend(steps_of(&opened));
    notes.extend(
        opened
            .failures()
            .map(|(name, why)| format!("{name} is not used: {why}")),
    );
    let best = opened.names().first().copied().unwrap_or(TIMER);
    let sources = sources(&target.wanted, |family| match family {
        Family::Memory => best,
        _ => TIMER,
    });
    let how = Started {
        sources,
        notes,
        ladder,
        metrics: None,
    };
    Source::Notices(Box::new(opened), how)
}

fn kernel(mode: EventsMode, target: &Target, options: &AttachOptions) -> Result<Source, Failure> {
    let wanted = &target.wanted;
    let (mut attached, plan) = attach_planned(&AttachOptions {
        families: Some(wanted.families_to_attach()),
        ..options.clone()
    });
    let report = attached.report().clone();
    let mut notes = wanted.doubts.clone();
    notes.extend(
        report
            .object
            .iter()
            .map(|why| format!("no eBPF program could be loaded: {why}")),
    );
    let mut ladder = Vec::new();
    for family in wanted.families() {
        ladder.extend(rungs_of(family, &plan, report.of(family)));
        let serving = report.serving(family);
        if serving != family {
            ladder.extend(rungs_of(serving, &plan, report.of(serving)));
        }
    }
    let mut found = sources(wanted, |family| {
        hook_source(family, report.of(report.serving(family)), &mut notes)
    });
    notes.extend(wanted.bounded(&report));
    if found.iter().any(|(_, source)| *source == TIMER) {
        if mode == EventsMode::Ebpf {
            return Err(Failure {
                text: notes.join("; "),
                exit: Exit::FallbackOnly,
            });
        }
        tracing::warn!(
            "{}; looking on a timer instead, `eviction doctor` tells more",
            notes.join("; ")
        );
    }
    let nothing = found.iter().all(|(_, source)| *source == TIMER)
        && !report.of(Family::Observations).is_attached();
    if nothing {
        return Ok(notices(target, notes, ladder));
    }
    let second = if report.of(Family::Memory).is_attached() {
        Notices::none()
    } else {
        Notices::open(&target.hierarchy, &target.group)
    };
    ladder.extend(steps_of(&second));
    for (family, source) in &mut found {
        if *family == Family::Memory.name() && *source == TIMER {
            *source = second.names().first().copied().unwrap_or(TIMER);
        }
    }
    let log = attached.log_reader();
    let cgroups = attached.take_cgroups();
    let group = GroupMemoryReader::open(&target.group, target.hierarchy.version).ok();
    let first = KernelSides::open(attached, wanted, group, options.clone())
        .map_err(|e| Failure::runtime(&e))?;
    let events = Layered { first, second };
    let how = Started {
        sources: found,
        notes,
        ladder,
        metrics: None,
    };
    let kernel = KernelSource {
        events,
        how,
        log,
        cgroups,
    };
    Ok(Source::Kernel(Box::new(kernel)))
}

/// The rungs of a family's ladder, best first.
fn rungs_of(family: Family, plan: &Plan, report: &HookReport) -> Vec<LadderStep> {
    let candidates = plan.ladder(family).iter().flat_map(|step| &step.rungs);
    candidates
        .map(|candidate| {
            let (places, why_not) = match report.standing(candidate) {
                Standing::Used(places) => (places, None),
                Standing::Excluded(reason) => (0, Some(reason.to_string())),
                Standing::Failed(error) => (0, Some(error.to_owned())),
                Standing::Spare => (0, Some("a better one is in use".to_owned())),
            };
            LadderStep {
                family: family.name(),
                resource: resource(family),
                name: candidate.rung.name(),
                places,
                why_not,
            }
        })
        .collect()
}

fn steps_of(notices: &Notices) -> Vec<LadderStep> {
    let family = Family::Memory.name();
    let resource = resource(Family::Memory);
    let used = notices.names().into_iter().map(|name| LadderStep {
        family,
        resource,
        name,
        places: 1,
        why_not: None,
    });
    let failed = notices.failures().map(|(name, why)| LadderStep {
        family,
        resource,
        name,
        places: 0,
        why_not: Some(why),
    });
    used.chain(failed).collect()
}

/// The source of each family that is wanted.
fn sources(
    wanted: &Wanted,
    mut source: impl FnMut(Family) -> &'static str,
) -> Vec<(&'static str, &'static str)> {
    let families = wanted.families().into_iter();
    families
        .map(|family| (family.name(), source(family)))
        .collect()
}

/// What a user may say about the eBPF programs.
#[derive(Debug, Clone, Args)]
pub(super) struct BpfArgs {
    /// Let the eBPF programs log through aya-log (slow; for debugging them).
    #[arg(long)]
    bpf_log: bool,
    /// Use only these hooks, as `eviction doctor` names them, separated by commas (for tests).
    #[arg(long, value_name = "RUNGS", value_delimiter = ',', value_parser = rung)]
    rungs: Vec<Rung>,
    /// Read the kernel's types from this file instead of /sys/kernel/btf/vmlinux.
    #[arg(long, value_name = "FILE", value_parser = btf)]
    btf: Option<PathBuf>,
    /// Look whenever a credit is used up, without comparing the real counter first (to measure what that spares).
    #[arg(long, hide = true)]
    no_compare: bool,
}

/// A file that was named has to be one: without the kernel's types most hooks would quietly be missing.
fn btf(file: &str) -> Result<PathBuf, String> {
    check_btf(file.as_ref())
        .map(|()| file.into())
        .map_err(|e| format!("{e}; name a BTF file of this kernel, or leave the flag out"))
}

pub(super) fn rung(name: &str) -> Result<Rung, String> {
    let known = || Rung::ALL.map(Rung::name).join(", ");
    name.parse()
        .map_err(|_| format!("no hook has this name; known are {}", known()))
}

impl BpfArgs {
    pub(super) fn options(&self) -> AttachOptions {
        let mut options = AttachOptions {
            bpf_log: self.bpf_log,
            compare: !self.no_compare,
            ..AttachOptions::default()
        };
        options.allow = (!self.rungs.is_empty()).then(|| self.rungs.clone());
        if let Some(btf) = &self.btf {
            options.btf.clone_from(btf);
        }
        options
    }
}

/// Gathers the facts of this kernel, and attaches what they allow.
pub(super) fn attach(options: &AttachOptions) -> Attached {
    attach_planned(options).0
}

fn attach_planned(options: &AttachOptions) -> (Attached, Plan) {
    let facts = gather(options);
    let plan = plan(&facts);
    (Attached::attach(&facts, &plan, options), plan)
}

pub(super) fn gather(options: &AttachOptions) -> Facts {
    Facts::gather(&FactsOptions {
        btf: options.btf.clone(),
        ..FactsOptions::default()
    })
}

/// The name of the rung in use; notes why there is none.
fn hook_source(family: Family, report: &HookReport, notes: &mut Vec<String>) -> &'static str {
    if report.is_attached() {
        return report.source();
    }
    notes.push(format!(
        "no events for {family} from the kernel ({})",
        report.why_not()
    ));
    TIMER
}
