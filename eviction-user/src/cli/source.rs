//! Chooses what says "look now": the kernel side, or the timer.

use super::{Exit, Failure};
use crate::agent::TimerOnly;
use crate::bpf::{
    AttachOptions, Attached, CgroupFeed, Facts, FactsOptions, Family, HookReport, KernelEvents,
    LogReader, Rung, Wanted, plan,
};
use crate::ports::Started;
use crate::sys::cgroup::GroupMemoryReader;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum EventsMode {
    /// eBPF events where the kernel allows them, else the timer.
    Auto,
    /// eBPF events, or do not start (exit code 3).
    Ebpf,
    /// The adaptive timer alone.
    Timer,
    /// Look at the monitoring interval only, as the kubelet does.
    None,
}

/// One of the two forms, and how it came to it.
pub(super) enum Source {
    Kernel(Box<KernelSource>),
    Timer(TimerOnly, Started),
}

pub(super) struct KernelSource {
    pub(super) events: KernelEvents,
    pub(super) how: Started,
    /// What the programs say, with `--bpf-log`.
    pub(super) log: Option<LogReader>,
    /// Where the kernel tells of cgroups that come and go.
    pub(super) cgroups: Option<CgroupFeed>,
}

/// Attaches what the plan says. Must be called within a tokio runtime with I/O.
pub(super) fn open(
    mode: EventsMode,
    wanted: &Wanted,
    group: Option<GroupMemoryReader>,
    options: &AttachOptions,
) -> Result<Source, Failure> {
    if matches!(mode, EventsMode::Timer | EventsMode::None) {
        let name = if mode == EventsMode::Timer {
            "timer"
        } else {
            "interval"
        };
        let notes = vec![format!("kernel events are switched off (--events {name})")];
        return Ok(Source::Timer(
            TimerOnly,
            Started {
                sources: sources(wanted, |_| name),
                notes,
            },
        ));
    }
    let mut attached = attach(&AttachOptions {
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
    let found = sources(wanted, |family| {
        hook_source(family, report.of(family), &mut notes)
    });
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
    let how = Started {
        sources: found,
        notes,
    };
    if nothing {
        return Ok(Source::Timer(TimerOnly, how));
    }
    let log = attached.log_reader();
    let cgroups = attached.take_cgroups();
    let events = KernelEvents::open(attached, wanted, group).map_err(|e| Failure::runtime(&e))?;
    let kernel = KernelSource {
        events,
        how,
        log,
        cgroups,
    };
    Ok(Source::Kernel(Box::new(kernel)))
}

const TIMER: &str = "timer";

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
    #[arg(long, value_name = "FILE")]
    btf: Option<PathBuf>,
}

fn rung(name: &str) -> Result<Rung, String> {
    let known = || Rung::ALL.map(Rung::name).join(", ");
    name.parse()
        .map_err(|_| format!("no hook has this name; known are {}", known()))
}

impl BpfArgs {
    pub(super) fn options(&self) -> AttachOptions {
        let mut options = AttachOptions {
            bpf_log: self.bpf_log,
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
    let facts = gather(options);
    Attached::attach(&facts, &plan(&facts), options)
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
    let tried = report
        .failed
        .iter()
        .map(|f| format!("{}: {}", f.rung.name(), f.error));
    let ruled_out = report
        .excluded
        .iter()
        .map(|e| format!("{}: {}", e.rung.name(), e.reason));
    let reasons: Vec<_> = tried.chain(ruled_out).collect();
    notes.push(format!(
        "no events for {family} from the kernel ({})",
        reasons.join("; ")
    ));
    TIMER
}
