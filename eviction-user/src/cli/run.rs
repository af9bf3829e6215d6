//! `eviction run`: checks everything that can be wrong, then wires the parts and lets the loop go.

use super::host_args::{Host, HostArgs};
use super::metrics::{self, MetricsArgs};
use super::recording::{self, RecordingArgs};
use super::source::{self, BpfArgs, EventsMode, KernelSource, Source, Target};
use super::{Exit, Failure, guards, place, stop};
use crate::agent::{self, Agent, Lines, Privileges, Settings};
use crate::host::{
    CgroupExecutor, CommandReclaim, GuardsAsked, HostOwner, LimitWatch, Meter, NodeInventory,
    Owner, Scan, Scanner, Share,
};
use crate::kube::{Cluster, NodeEvents};
use crate::model::Action;
use crate::policy::{Engine, EngineConfig, local_storage};
use crate::ports::{Entry, NodeReclaim, PressureSource, Started};
use crate::record::Recorder;
use crate::record::victims::{self, KeptVictim, VictimKeeper};
use crate::sys::cgroup::{CgroupNames, ChangeFeed};
use crate::sys::clock;
use crate::sys::fault;
use crate::sys::realtime::Scheduled;
use crate::telemetry::journal::ChannelJournal;
use crate::telemetry::metrics::{Check, Vitals};
use crate::telemetry::record::{self, Names, Output};
use caps::{CapSet, Capability};
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use tokio::sync::oneshot;

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    host: HostArgs,
    /// What makes it look between the cycles.
    #[arg(long, value_enum, default_value = "auto")]
    events: EventsMode,
    /// Decide and say so, but kill nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print a record of every look, too.
    #[arg(long)]
    looks: bool,
    /// How the records are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// A directory for what a restart goes on with: victims on their way out, and the scan of the
    /// workloads' directories.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    recording: RecordingArgs,
    #[command(flatten)]
    bpf: BpfArgs,
}

pub(super) fn run(args: &RunArgs) -> Result<Exit, Failure> {
    if let Some(point) = fault::arm().map_err(|e| Failure::usage(&e))? {
        tracing::warn!(
            "{} is set: this process kills itself at the point {}",
            fault::VARIABLE,
            point.name()
        );
    }
    let mut host = args.host.open()?;
    if let Some(cluster) = &mut host.cluster {
        cluster.evicts = !args.dry_run;
    }
    if !args.dry_run && !may_kill() {
        return Err(Failure::privilege(
            "killing the processes of others needs root or CAP_KILL: run as root, or try --dry-run",
        ));
    }
    // Before anything else is begun.
    let listener = args.metrics.bind()?;
    let wanted = host.wanted();
    let (mut memory, keeper) = open_state(args)?;
    let guards = if args.recording.is_asked_for() {
        GuardsAsked::ALL
    } else {
        guards::asked(&host.config.additions)
    };
    // A dry run finishes nobody's records.
    let kept = args.state.as_deref().filter(|_| !args.dry_run);
    let cluster = host.start_cluster(kept)?;
    if let (Some((_, left)), Some(cluster)) = (&mut memory, &cluster) {
        // The last process may have ended between the two files.
        for (uid, name, leaves_until) in cluster.left() {
            if left.iter().all(|victim| victim.uid != uid) {
                left.push(KeptVictim {
                    uid,
                    name,
                    leaves_until,
                });
            }
        }
    }
    let scan = background_scan(&host, cluster.as_ref(), args.state.as_deref())?;
    let limits = limits(&host, cluster.as_ref())?;
    let inventory = host.inventory(scan, limits, guards, cluster.as_ref())?;
    let engine = host.engine_config();
    let lines = Lines::new(host.thresholds());
    let others = host.checks()?;
    let places = place::all(&host);
    let watched = places.keys().copied().collect();
    let Host {
        config,
        hierarchy,
        root,
        pod_places,
        reclaim,
        file_systems,
        ..
    } = host;
    let target = Target {
        wanted,
        hierarchy: hierarchy.clone(),
        group: root.clone(),
    };
    let owner: Box<dyn Owner + Send> = match cluster.as_ref().zip(pod_places) {
        Some((cluster, places)) => Box::new(cluster.owner(root, places)),
        None => Box::new(HostOwner::new(root)),
    };
    let command = config.reclaim.clone().map(CommandReclaim::start);
    let command = command.transpose().map_err(|e| Failure::runtime(&e))?;
    let reclaimer: Option<Box<dyn NodeReclaim>> = match (reclaim.zip(cluster.as_ref()), command) {
        (Some((reclaim, cluster)), _) => Some(reclaim.start(&file_systems, cluster)?),
        (None, Some(command)) => Some(Box::new(command)),
        (None, None) => None,
    };
    let executor = CgroupExecutor::new(owner, hierarchy.clone(), reclaimer)
        .map_err(|e| Failure::runtime(&e))?;
    let cgroups = CgroupNames::new(hierarchy);
    let output = args.output;
    let (feeds, told) = mpsc::channel();
    let (journal, printer) = ChannelJournal::start(move |entries| {
        record::print_all(&entries, output, Names { cgroups, places }, &told)
    })
    .map_err(|e| Failure::runtime(&e))?;
    let (journal, teller) = match cluster.as_ref().filter(|_| !args.dry_run) {
        Some(cluster) => {
            let events = cluster.node_events();
            let (journal, teller) = journal
                .seen_by(move |entry| tell_node(&events, entry))
                .map_err(|e| Failure::runtime(&e))?;
            (journal, Some(teller))
        }
        None => (journal, None),
    };
    let vitals = Arc::new(Vitals::new(clock::now()));
    if let Some(cluster) = &cluster {
        vitals.count_refused(cluster.refused());
    }
    let (journal, served) = match listener {
        Some(listener) => {
            let vitals = Arc::clone(&vitals);
            let checks: Vec<Check> = cluster
                .iter()
                .map(|cluster| Box::new(cluster.listing()) as Check)
                .chain(others)
                .collect();
            let (journal, served) = metrics::serve(listener, vitals, watched, checks, journal)
                .map_err(|e| Failure::runtime(&e))?;
            (journal, Some(served))
        }
        None => (journal, None),
    };
    let settings = Settings {
        interval: config.interval,
        look_between: args.events != EventsMode::None,
        dry_run: args.dry_run,
        tell_looks: args.looks,
    };
    let recording = recording::start(&args.recording, &engine, args.dry_run)?;
    let (recorder, writer) = recording.unzip();
    let parts = Parts {
        inventory,
        executor,
        journal,
        engine,
        lines,
        recorder,
        memory,
        vitals,
        metrics: served.as_ref().map(|served| served.at),
        settings,
    };
    let (events, options) = (args.events, args.bpf.options());
    serve(parts, feeds, move || {
        source::open(events, &target, &options)
    })?;
    // The journal went with the agent: what it still holds is printed, then the printer ends.
    if let Some(served) = served {
        served.end();
    }
    let _ = printer.join();
    for thread in [writer, keeper, teller].into_iter().flatten() {
        // The recorder, the keeper and the one who tells the node's events went the same way.
        let _ = thread.join();
    }
    if let Some(cluster) = cluster {
        cluster.end();
    }
    Ok(Exit::Good)
}

fn tell_node(events: &NodeEvents, entry: &Entry) {
    let Entry::Engine { action, .. } = entry else {
        return;
    };
    match action {
        Action::NodeEvent(event) => events.tell(event),
        Action::Conditions(conditions) => events.report(conditions),
        _ => {}
    }
}

/// Who was on the way out when the last process ended, and who will remember from now on.
type Memory = (VictimKeeper, Vec<KeptVictim>);

fn open_state(args: &RunArgs) -> Result<(Option<Memory>, Option<JoinHandle<()>>), Failure> {
    let Some(folder) = &args.state else {
        return Ok((None, None));
    };
    let usage = |e: String| {
        Failure::usage(&format!(
            "--state: {e}; name a directory that can be written"
        ))
    };
    std::fs::create_dir_all(folder).map_err(|e| usage(format!("{}: {e}", folder.display())))?;
    if args.dry_run {
        // It has no victims, and those of others are none of its business.
        return Ok((None, None));
    }
    let left = victims::read(folder);
    let (keeper, thread) = VictimKeeper::start(folder).map_err(|e| usage(e.to_string()))?;
    Ok((Some((keeper, left)), Some(thread)))
}

/// `state`: where a scan under way is kept over a restart.
fn background_scan(
    host: &Host,
    cluster: Option<&Cluster>,
    state: Option<&Path>,
) -> Result<Scan, Failure> {
    let Some(targets) = host.scan_targets(cluster) else {
        return Ok(Scan::None);
    };
    // Which pods there are is not known yet, so nothing kept could be taken up again.
    let state = state.filter(|_| cluster.is_none());
    let share = cluster.map_or(Share::Tenth, |_| Share::TwentyFifth);
    Scanner::start(targets, share, state.map(|folder| folder.join("scan.cbor")))
        .map(Scan::Background)
        .map_err(|e| Failure::runtime(&e))
}

/// Pods' own limits on what they hold on disks, if that is asked for.
fn limits(host: &Host, cluster: Option<&Cluster>) -> Result<Option<LimitWatch>, Failure> {
    let asked = cluster
        .zip(host.pod_places.clone())
        .filter(|_| host.storage_limits);
    asked
        .map(|(cluster, places)| {
            let limited = cluster.limited(places, local_storage::limits);
            let meter = Meter::start(limited, Share::TwentyFifth);
            meter.map(LimitWatch::new).map_err(|e| Failure::runtime(&e))
        })
        .transpose()
}

/// All but the source, which has more than one form.
struct Parts {
    inventory: NodeInventory,
    executor: CgroupExecutor,
    journal: ChannelJournal,
    engine: EngineConfig,
    lines: Lines,
    recorder: Option<Recorder>,
    memory: Option<Memory>,
    vitals: Arc<Vitals>,
    /// Where they are served.
    metrics: Option<SocketAddr>,
    settings: Settings,
}

/// Runs the loop on its own thread until the process is told to stop.
fn serve(
    parts: Parts,
    feeds: mpsc::Sender<Box<dyn ChangeFeed>>,
    open_source: impl FnOnce() -> Result<Source, Failure> + Send + 'static,
) -> Result<(), Failure> {
    let (stop, stopped) = oneshot::channel::<()>();
    let (alive, ended) = stop::watched();
    let thread = agent::start(async move || {
        let _alive = alive;
        match open_source()? {
            Source::Timer(timer, how) => live(timer, how, parts, stopped).await,
            Source::Notices(notices, how) => live(*notices, how, parts, stopped).await,
            Source::Kernel(kernel) => {
                let KernelSource {
                    events,
                    how,
                    log,
                    cgroups,
                } = *kernel;
                if let Some(feed) = cgroups {
                    // A printer that has ended (standard output is closed) needs no names.
                    let _ = feeds.send(Box::new(feed));
                }
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
    stop::wait_for(ended, None).map_err(|e| Failure::runtime(&e))?;
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
    let Parts {
        inventory,
        executor,
        journal,
        engine,
        lines,
        recorder,
        memory,
        vitals,
        metrics,
        settings,
    } = parts;
    let engine = Engine::new(engine);
    let mut agent = Agent::new(
        source, inventory, executor, journal, engine, lines, settings,
    )
    .watched_by(vitals);
    if let Some(recorder) = recorder {
        agent = agent.recorded_by(recorder);
    }
    if let Some((keeper, left)) = memory {
        agent = agent.kept_by(keeper, left);
    }
    how.metrics = metrics;
    let got = Privileges::take();
    how.notes.extend(match got.realtime {
        Ok(Scheduled::WithItsProcess) => None,
        Ok(moved) => Some(moved.to_string()),
        Err(refused) => Some(refused.to_string()),
    });
    how.notes.extend(
        got.memory_lock
            .err()
            .map(|e| format!("memory could not be locked ({e}): give the process CAP_IPC_LOCK")),
    );
    // Also a sender that is gone means the end.
    agent.run(how, async { drop(stopped.await) }).await;
}

fn may_kill() -> bool {
    // An unreadable capability set is treated as an empty one: a refusal that names the fix.
    caps::has_cap(None, CapSet::Effective, Capability::CAP_KILL).unwrap_or(false)
}
