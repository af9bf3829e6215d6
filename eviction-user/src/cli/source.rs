//! Chooses what says "look now": the kernel side, or the timer.

use super::{Exit, Failure};
use crate::agent::TimerOnly;
use crate::bpf::{
    AttachOptions, Attached, Facts, FactsOptions, HookReport, KernelEvents, LogReader, Rung,
    Wanted, plan,
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
                memory: name,
                inodes: name,
                notes,
            },
        ));
    }
    let mut attached = attach(options);
    let (memory_wanted, inodes_wanted) = (
        wanted.node_memory || wanted.group_memory.is_some(),
        wanted.inodes.is_some(),
    );
    let report = attached.report().clone();
    let mut notes = Vec::new();
    notes.extend(
        report
            .object
            .iter()
            .map(|why| format!("no eBPF program could be loaded: {why}")),
    );
    let memory = hook_source(memory_wanted, &report.memory, "memory", &mut notes);
    let inodes = hook_source(inodes_wanted, &report.inodes, "inode", &mut notes);
    if !report.memory.is_attached() && memory_wanted
        || !report.inodes.is_attached() && inodes_wanted
    {
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
    let how = Started {
        memory,
        inodes,
        notes,
    };
    if memory == TIMER && inodes == TIMER {
        return Ok(Source::Timer(TimerOnly, how));
    }
    let log = attached.log_reader();
    let events = KernelEvents::open(attached, wanted, group).map_err(|e| Failure::runtime(&e))?;
    Ok(Source::Kernel(Box::new(KernelSource { events, how, log })))
}

const TIMER: &str = "timer";

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

/// The name of the rung in use; notes why there is none, if one was wanted.
fn hook_source(
    wanted: bool,
    report: &HookReport,
    hook: &str,
    notes: &mut Vec<String>,
) -> &'static str {
    if report.is_attached() {
        return report.source();
    }
    if wanted {
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
            "no {hook} events from the kernel ({})",
            reasons.join("; ")
        ));
    }
    TIMER
}
