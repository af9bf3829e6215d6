//! `eviction trace`: one line per kernel event. Arms a step ahead, again and again, and evicts nothing.

mod lines;

use super::source::{self, BpfArgs};
use super::{Exit, Failure, stop};
use crate::agent;
use crate::bpf::{AttachOptions, KernelEvents, Wanted};
use crate::model::{Quantity, Resource, Signal};
use crate::ports::{Distance, PressureEvent, PressureSource};
use crate::sys::cgroup::{CgroupDir, CgroupNames, GroupMemoryReader, Hierarchy, PAGE_SIZE};
use crate::sys::distant::Opening;
use crate::telemetry::record::Output;
use clap::Args;
use lines::Lines;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::oneshot;

/// How often stalls in reclaim are printed, where there were any.
const STALLS_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// Only memory charged in this cgroup and below. Default: the whole node.
    #[arg(long, value_name = "CGROUP")]
    root: Option<PathBuf>,
    /// A path on a file system whose new inodes and bytes are traced too.
    #[arg(long, value_name = "PATH")]
    nodefs: Option<PathBuf>,
    /// An event each time so much memory has been charged.
    #[arg(long, value_name = "QUANTITY", default_value = "16Mi", value_parser = step)]
    memory_step: i64,
    /// An event each time so much disk space has been used.
    #[arg(long, value_name = "QUANTITY", default_value = "16Mi", value_parser = step)]
    byte_step: i64,
    /// An event each time so many inodes have been made.
    #[arg(long, value_name = "QUANTITY", default_value = "100", value_parser = step)]
    inode_step: i64,
    /// An event each time so many tasks (processes and threads) have been made, on the whole node. Default: none.
    #[arg(long, value_name = "QUANTITY", value_parser = step)]
    task_step: Option<i64>,
    /// Stop after so many events.
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Stop after so long.
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// How the events are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    bpf: BpfArgs,
}

fn step(text: &str) -> Result<i64, String> {
    let quantity: Quantity = text.parse().map_err(|e| format!("{e}"))?;
    if quantity.value() > 0 {
        Ok(quantity.value())
    } else {
        Err("must be more than 0".to_owned())
    }
}

pub(super) fn trace(args: &TraceArgs) -> Result<Exit, Failure> {
    let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
    let group = match &args.root {
        Some(root) => {
            let group = hierarchy
                .resolve(root)
                .and_then(|path| CgroupDir::open(&path))
                .map_err(|e| Failure::usage(&format!("--root: {e}; name an existing cgroup")))?;
            let reader = GroupMemoryReader::open(&group, hierarchy.version)
                .map_err(|e| Failure::usage(&format!("--root: no memory controller there: {e}")))?;
            Some((group.id(), reader))
        }
        None => None,
    };
    let nodefs = args
        .nodefs
        .as_deref()
        .map(|path| Opening::start(path).wait())
        .transpose()
        .map_err(|e| Failure::usage(&format!("--nodefs: {e}")))?;
    let mut wanted = Wanted {
        node_memory: group.is_none(),
        group_memory: group.as_ref().map(|(id, _)| *id),
        pids: args.task_step.is_some(),
        ..Wanted::default()
    };
    if let Some(fs) = &nodefs {
        wanted.add_device(Signal::NodeFsInodesFree, fs);
        wanted.add_device(Signal::NodeFsAvailable, fs);
    }
    let tracer = Tracer {
        wanted,
        group: group.map(|(_, reader)| reader),
        memory_step: args.memory_step.max(PAGE_SIZE as i64),
        byte_step: args.byte_step,
        inode_step: args.inode_step,
        task_step: args.task_step.unwrap_or(0),
        left: args.count,
        lines: Lines {
            output: args.output,
            names: CgroupNames::new(hierarchy),
            stalls: BTreeMap::new(),
            lost: 0,
        },
    };
    let options = args.bpf.options();
    let (stop, stopped) = oneshot::channel::<()>();
    let (alive, ended) = stop::watched();
    let body = async move || {
        let _alive = alive;
        tracer.run(&options, stopped).await
    };
    let thread = agent::start(body).map_err(|e| Failure::runtime(&e))?;
    stop::wait_for(ended, args.seconds.map(Duration::from_secs))
        .map_err(|e| Failure::runtime(&e))?;
    // It may have ended by itself, having seen as many events as were asked for.
    let _ = stop.send(());
    match thread.join() {
        Ok(done) => done.map_err(|e| Failure::runtime(&e))?,
        Err(_) => Err(Failure::runtime(
            &"the tracing thread ended unexpectedly; see the message above",
        )),
    }
}

struct Tracer {
    wanted: Wanted,
    group: Option<GroupMemoryReader>,
    memory_step: i64,
    byte_step: i64,
    inode_step: i64,
    task_step: i64,
    /// Events still to be printed; `None`: no end.
    left: Option<u64>,
    lines: Lines,
}

impl Tracer {
    async fn run(
        mut self,
        options: &AttachOptions,
        stopped: oneshot::Receiver<()>,
    ) -> Result<Exit, Failure> {
        let mut attached = source::attach(&AttachOptions {
            families: Some(self.wanted.families_to_attach()),
            ..options.clone()
        });
        for doubt in &self.wanted.doubts {
            tracing::warn!("{doubt}");
        }
        let report = attached.report().clone();
        let families = self.wanted.families().into_iter();
        let sources: Vec<_> = families
            .map(|family| (family.name(), report.of(family).source()))
            .collect();
        if sources.iter().all(|(_, source)| *source == "none") {
            let text = "no eBPF hook can be attached here, so there is nothing to trace; `eviction doctor` says why";
            return Err(Failure {
                text: text.to_owned(),
                exit: Exit::FallbackOnly,
            });
        }
        tracing::info!(?sources, "tracing");
        let log = attached.log_reader();
        if let Some(feed) = attached.take_cgroups() {
            self.lines.names.follow(Box::new(feed));
        }
        let mut events =
            KernelEvents::open(attached, &self.wanted, None).map_err(|e| Failure::runtime(&e))?;
        let logging = async {
            match log {
                Some(log) => drop(log.run().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            done = self.print_all(&mut events) => done.map_err(|e| Failure::runtime(&e))?,
            () = logging => {}
            // Also a sender that is gone means the end.
            _ = stopped => {}
        }
        let lost = events.lost_events();
        if lost > 0 {
            tracing::warn!(lost, "events were lost");
        }
        Ok(Exit::Good)
    }

    async fn print_all(&mut self, events: &mut KernelEvents) -> io::Result<()> {
        let mut out = io::stdout();
        events.mark();
        Signal::ALL
            .into_iter()
            .for_each(|signal| self.arm(events, signal));
        let mut second = tokio::time::interval(STALLS_EVERY);
        // What had stalled before is not this trace's.
        self.lines.stalls(events.stalls());
        while self.left != Some(0) {
            let lines = tokio::select! {
                event = events.next() => self.heard(events, &event),
                _ = second.tick() => {
                    self.lines.names.refresh();
                    let lost = events.lost_events() + self.lines.names.lost();
                    let mut lines = self.lines.stalls(events.stalls());
                    lines.extend(self.lines.lost(lost));
                    lines
                }
            };
            for line in lines {
                // A reader that has seen enough (`| head`) is no failure.
                if writeln!(out, "{line}").is_err() {
                    return Ok(());
                }
            }
            if out.flush().is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn heard(&mut self, events: &mut KernelEvents, event: &PressureEvent) -> Vec<String> {
        self.left = self.left.map(|left| left - 1);
        let victims = events.oom_victims();
        if !victims.is_empty() {
            return victims
                .iter()
                .map(|victim| self.lines.victim(victim))
                .collect();
        }
        events.mark();
        self.arm(events, event.signal);
        vec![self.lines.event(event)]
    }

    /// The next line is a step away from here, wherever here is.
    fn arm(&self, events: &mut KernelEvents, signal: Signal) {
        let left = match signal.resource() {
            Resource::Memory => self.memory_step,
            Resource::EphemeralStorage => self.byte_step,
            Resource::Inodes => self.inode_step,
            Resource::Pids => self.task_step,
        };
        let usage = self
            .group
            .as_ref()
            .filter(|_| signal == Signal::AllocatableMemoryAvailable)
            .and_then(|g| g.usage().ok());
        let level = usage.map(|usage| usage.saturating_add_signed(left));
        // It is armed also when a step went by meanwhile; from a new mark the count is exact again.
        if events.arm(signal, Distance { left, level }).is_some() {
            events.mark();
            events.arm(signal, Distance { left, level });
        }
    }
}
