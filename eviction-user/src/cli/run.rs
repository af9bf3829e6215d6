//! `eviction run`: checks everything that can be wrong, then wires the parts and lets the loop go.

use super::source::{self, BpfArgs, EventsMode, KernelSource, Source};
use super::{Exit, Failure, stop};
use crate::agent::{self, Agent, Lines, Privileges, Settings};
use crate::bpf::Wanted;
use crate::config::{HostConfig, HostFlags};
use crate::host::{DirectoryScan, HostExecutor, HostInventory};
use crate::model::{Signal, Threshold};
use crate::policy::{Engine, EngineConfig};
use crate::ports::{PressureSource, Started};
use crate::sys::cgroup::{CgroupDir, CgroupNames, GroupMemoryReader, Hierarchy};
use crate::sys::filesystem::FileSystem;
use crate::telemetry::journal::ChannelJournal;
use crate::telemetry::record::{self, Output};
use caps::{CapSet, Capability};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use tokio::sync::oneshot;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Whose workloads are watched.
    #[arg(long, value_enum)]
    platform: Platform,
    /// The cgroup whose child cgroups are the workloads: a path below /sys/fs/cgroup. Nothing outside
    /// it is ever evicted.
    #[arg(long, value_name = "CGROUP")]
    root: Option<PathBuf>,
    /// When to evict: SIGNAL<QUANTITY or SIGNAL<PERCENT%, separated by commas. memory.available is the
    /// node's, allocatableMemory.available that of --root against its own limit, nodefs.inodesFree that
    /// of --nodefs.
    #[arg(long, value_name = "THRESHOLDS")]
    eviction_hard: Option<String>,
    /// A path on the file system that nodefs.inodesFree is about.
    #[arg(long, value_name = "PATH")]
    nodefs: Option<PathBuf>,
    /// What is known of a workload: NAME:priority=N,request=QUANTITY,dir=PATH,protect. The request
    /// defaults to memory.low, then to 0; dir is where its files lie, for inode use without eBPF.
    #[arg(long = "workload", value_name = "SPEC")]
    workloads: Vec<String>,
    /// A full policy cycle runs at least this often.
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    monitoring_interval: String,
    /// What makes it look between the cycles.
    #[arg(long, value_enum, default_value = "auto")]
    events: EventsMode,
    /// Decide and say so, but kill nothing.
    #[arg(long)]
    dry_run: bool,
    /// How the records are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    bpf: BpfArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Platform {
    /// Child cgroups of --root, without Kubernetes.
    Host,
}

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    let Platform::Host = args.platform;
    let flags = HostFlags {
        root: args.root.clone(),
        eviction_hard: args.eviction_hard.clone(),
        nodefs: args.nodefs.clone(),
        workloads: args.workloads.clone(),
        monitoring_interval: args.monitoring_interval.clone(),
    };
    let config = HostConfig::from_flags(&flags).map_err(|e| Failure::usage(&e))?;
    let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
    let root = open_root(&config, &hierarchy)?;
    let nodefs = open_nodefs(&config)?;
    if !args.dry_run && !may_kill() {
        return Err(Failure::privilege(
            "killing the processes of others needs root or CAP_KILL: run as root, or try --dry-run",
        ));
    }
    warn_unknown_workloads(&config, &root);

    let wanted = Wanted {
        node_memory: watches(&config.thresholds, Signal::MemoryAvailable),
        group_memory: watches(&config.thresholds, Signal::AllocatableMemoryAvailable)
            .then_some(root.id()),
        inodes: nodefs.as_ref().map(|fs| fs.device),
    };
    let group = GroupMemoryReader::open(&root, hierarchy.version).ok();
    let scan = open_scan(&config)?;
    let inventory = HostInventory::open(
        root.clone(),
        hierarchy.clone(),
        config.workloads.clone(),
        nodefs,
        scan,
    )
    .map_err(|e| Failure::runtime(&e))?;
    let executor = HostExecutor::new(root, hierarchy.clone()).map_err(|e| Failure::runtime(&e))?;
    let names = CgroupNames::new(hierarchy);
    let output = args.output;
    let (journal, printer) =
        ChannelJournal::start(move |entries| record::print_all(entries, output, names))
            .map_err(|e| Failure::runtime(&e))?;
    let settings = Settings {
        interval: config.interval,
        look_between: args.events != EventsMode::None,
        dry_run: args.dry_run,
    };
    let parts = Parts {
        inventory,
        executor,
        journal,
        thresholds: config.thresholds,
        settings,
    };
    let (events, options) = (args.events, args.bpf.options());
    serve(parts, move || {
        source::open(events, &wanted, group, &options)
    })?;
    // The journal went with the agent: what it still holds is printed, then the printer ends.
    let _ = printer.join();
    Ok(Exit::Good)
}

/// All but the source, which has more than one form.
struct Parts {
    inventory: HostInventory,
    executor: HostExecutor,
    journal: ChannelJournal,
    thresholds: Vec<Threshold>,
    settings: Settings,
}

/// Runs the loop on its own thread until the process is told to stop.
fn serve(
    parts: Parts,
    open_source: impl FnOnce() -> Result<Source, Failure> + Send + 'static,
) -> Result<(), Failure> {
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = agent::start(async move || {
        match open_source()? {
            Source::Timer(timer, how) => live(timer, how, parts, stopped).await,
            Source::Kernel(kernel) => {
                let KernelSource { events, how, log } = *kernel;
                let logging = async {
                    match log {
                        Some(log) => log.run().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = live(events, how, parts, stopped) => {}
                    Err(error) = logging => return Err(Failure::runtime(&error)),
                }
            }
        }
        Ok(())
    })
    .map_err(|e| Failure::runtime(&e))?;
    stop::wait_for(&thread, None).map_err(|e| Failure::runtime(&e))?;
    // The loop may have ended by itself; then nobody listens any more.
    let _ = stop.send(());
    match thread.join() {
        Ok(done) => done.map_err(|e| Failure::runtime(&e))?,
        Err(_) => Err(Failure::runtime(
            &"the deciding thread ended unexpectedly; see the message above",
        )),
    }
}

async fn live<S: PressureSource>(
    source: S,
    mut how: Started,
    parts: Parts,
    stopped: oneshot::Receiver<()>,
) {
    let engine = Engine::new(engine_config(parts.thresholds.clone()));
    let lines = Lines::new(parts.thresholds);
    let Parts {
        inventory,
        executor,
        journal,
        settings,
        ..
    } = parts;
    let mut agent = Agent::new(
        source, inventory, executor, journal, engine, lines, settings,
    );
    let got = Privileges::take();
    how.notes.extend(got.realtime.err().map(|e| e.to_string()));
    how.notes.extend(
        got.memory_lock
            .err()
            .map(|e| format!("memory could not be locked ({e}): give the process CAP_IPC_LOCK")),
    );
    // Also a sender that is gone means the end.
    agent.run(how, async { drop(stopped.await) }).await;
}

/// The kubelet's policy, but that a host has neither pods' own storage limits nor a use for a victim
/// that has made no inode: where nobody counts, nobody goes.
fn engine_config(thresholds: Vec<Threshold>) -> EngineConfig {
    let mut config = EngineConfig::with_thresholds(thresholds);
    config.settings.local_storage_isolation = false;
    config.additions.min_victim_size.inodes = Some(1);
    config
}

fn watches(thresholds: &[Threshold], signal: Signal) -> bool {
    thresholds
        .iter()
        .any(|threshold| threshold.signal == signal)
}

fn open_root(config: &HostConfig, hierarchy: &Hierarchy) -> Result<CgroupDir, Failure> {
    let path = hierarchy.resolve(&config.root);
    let root = CgroupDir::open(&path).map_err(|e| {
        Failure::usage(&format!(
            "--root: {e}; name an existing cgroup, such as {}",
            hierarchy.mount.display()
        ))
    })?;
    if watches(&config.thresholds, Signal::AllocatableMemoryAvailable) {
        let limit = GroupMemoryReader::open(&root, hierarchy.version)
            .and_then(|reader| reader.read())
            .map_err(|e| {
                Failure::usage(&format!(
                    "--root: allocatableMemory.available needs the memory controller there: {e}"
                ))
            })?
            .limit;
        if limit.is_none() {
            return Err(Failure::usage(&format!(
                "--root: allocatableMemory.available needs a memory limit on {}; set one, or use memory.available for the whole node",
                path.display()
            )));
        }
    }
    Ok(root)
}

fn open_nodefs(config: &HostConfig) -> Result<Option<FileSystem>, Failure> {
    let Some(path) = &config.nodefs else {
        return Ok(None);
    };
    let usage = |text: String| Failure::usage(&format!("--nodefs: {text}"));
    let fs = FileSystem::at(path).map_err(|e| usage(e.to_string()))?;
    if fs.read().map_err(|e| usage(e.to_string()))?.inodes == 0 {
        return Err(usage(format!(
            "{} is on a file system that makes inodes as needed: nodefs.inodesFree has no meaning there",
            path.display()
        )));
    }
    Ok(Some(fs))
}

fn open_scan(config: &HostConfig) -> Result<Option<DirectoryScan>, Failure> {
    let named = config
        .workloads
        .iter()
        .filter_map(|w| Some((w.name.clone(), w.dir.clone()?)));
    let directories: Vec<_> = named.collect();
    if directories.is_empty() || config.nodefs.is_none() {
        return Ok(None);
    }
    DirectoryScan::start(directories)
        .map(Some)
        .map_err(|e| Failure::runtime(&e))
}

fn warn_unknown_workloads(config: &HostConfig, root: &CgroupDir) {
    for workload in &config.workloads {
        if root.child(&workload.name).is_none() {
            tracing::warn!(
                workload = workload.name,
                root = %root.path().display(),
                "no such child cgroup now; the settings apply when it appears"
            );
        }
    }
}

fn may_kill() -> bool {
    // An unreadable capability set is treated as an empty one: a refusal that names the fix.
    caps::has_cap(None, CapSet::Effective, Capability::CAP_KILL).unwrap_or(false)
}
