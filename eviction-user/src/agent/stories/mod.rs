//! Stories of the loop on a node made of plain numbers. The fakes fail as real cgroups cannot be made to.

mod moves;
mod reclaim;
mod soft;
mod turns;

use super::{Agent, Lines, Settings};
use crate::model::{
    Eviction, EvictionCause, FsStats, Limit, MemoryStats, ObservedPod, Pod, PodStats, Protection,
    Quantity, Signal, Snapshot, Summary, Threshold, Timestamp, Uid,
};
use crate::policy::{Engine, EngineConfig};
use crate::ports::{
    Begun, Coverage, Distance, Entry, Executor, Growth, Inventory, Journal, KillError, KillReport,
    LimitsLook, Look, LookError, Moved, OomVictim, PressureEvent, PressureSource, ReclaimBy,
    ReclaimEnd, ReclaimOrder, ReclaimReport, Removal, SilentHook, Started, Wake,
};
use crate::sys::clock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const TOTAL: u64 = 1000 * MIB;

/// What the node is like, changed by the test and by kills.
#[derive(Default)]
struct Node {
    /// Working set by workload, in MiB.
    used: BTreeMap<&'static str, u64>,
    unkillable: Vec<&'static str>,
    protected: Vec<&'static str>,
    /// How many more times a killed workload still shows as running.
    lingering: u32,
    killed: Vec<String>,
    entries: Vec<Entry>,
    looks: usize,
    snapshots: usize,
    armed: Vec<Distance>,
    /// Answers "crossed meanwhile" so many times.
    crossed_while_arming: u32,
    lost: u64,
    event: Option<PressureEvent>,
    victims: Vec<OomVictim>,
    silent: Vec<SilentHook>,
    look_fails: bool,
    unread: Option<String>,
    /// Who was asked to leave, and who does not do so.
    asked: Vec<String>,
    stubborn: Vec<&'static str>,
    /// Somebody has to be asked first; what each is answered, granted where nothing is said.
    asks: bool,
    answers: BTreeMap<&'static str, Removal>,
    may_go_unanswered: bool,
    urgent: Vec<String>,
    /// MiB free on a disk of as much as there is memory; `None`: no disk is watched.
    disk_free: Option<u64>,
    reclaim: Option<FakeReclaim>,
    reclaims: Vec<Signal>,
    /// Found by the next look, and what the source was told of it.
    moved: Vec<Moved>,
    followed: Vec<Signal>,
    coverage: Option<Coverage>,
    /// What each comparison with workloads' own limits finds; a limit is newly broken once.
    limits: Option<LimitsLook>,
}

/// What `--reclaim` would do.
struct FakeReclaim {
    by: ReclaimBy,
    may_end: bool,
    /// MiB of disk.
    frees: u64,
    end: ReclaimEnd,
    ended: usize,
}

#[derive(Clone)]
struct Shared(Rc<RefCell<Node>>);

impl Shared {
    fn new(used: &[(&'static str, u64)]) -> Self {
        let node = Node {
            used: used.iter().copied().collect(),
            ..Node::default()
        };
        Self(Rc::new(RefCell::new(node)))
    }

    fn available(&self) -> u64 {
        TOTAL - self.0.borrow().used.values().sum::<u64>() * MIB
    }

    /// Lets the agent run for a while, with `during` after a third of it.
    async fn run(&self, settings: Settings, during: impl FnOnce(&Self)) {
        let stop = async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            during(self);
            tokio::time::sleep(Duration::from_millis(120)).await;
        };
        let thresholds = vec![hard(Signal::MemoryAvailable)];
        let config = EngineConfig::with_thresholds(thresholds);
        self.run_with(config, settings, stop).await;
    }

    /// Waits until something is so; fails after a time that nothing here takes.
    async fn until(&self, what: &str, is_so: impl Fn(&Node) -> bool) {
        for _ in 0..10_000 {
            if is_so(&self.0.borrow()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{what}: {:?}", self.0.borrow().entries);
    }

    async fn run_with(
        &self,
        config: EngineConfig,
        settings: Settings,
        stop: impl Future<Output = ()>,
    ) {
        self.go(self.agent(config, settings), stop).await;
    }

    fn agent(&self, config: EngineConfig, settings: Settings) -> FakeAgent {
        let lines = Lines::new(config.settings.thresholds.clone());
        let engine = Engine::new(config);
        let look = Look {
            taken: clock::now(),
            summary: Summary::default(),
            node_excess: 0,
            node_lead: 0,
        };
        let inventory = FakeInventory {
            node: self.clone(),
            look,
        };
        Agent::new(
            self.clone(),
            inventory,
            self.clone(),
            self.clone(),
            engine,
            lines,
            settings,
        )
    }

    async fn go(&self, mut agent: FakeAgent, stop: impl Future<Output = ()>) {
        let how = Started {
            sources: vec![("memory", "fake")],
            notes: Vec::new(),
            ladder: Vec::new(),
            metrics: None,
        };
        agent.run(how, stop).await;
    }

    fn decisions(&self) -> Vec<(String, &'static str)> {
        let decision = |entry: &Entry| match entry {
            Entry::Decision { wake, eviction, .. } => {
                Some((eviction.pod.name.clone(), wake.name()))
            }
            _ => None,
        };
        self.0
            .borrow()
            .entries
            .iter()
            .filter_map(decision)
            .collect()
    }
}

/// Less than 100 MiB.
fn hard(signal: Signal) -> Threshold {
    Threshold::hard(
        signal,
        Limit::Quantity("100Mi".parse::<Quantity>().unwrap()),
    )
}

fn settings() -> Settings {
    Settings {
        interval: Duration::from_secs(10),
        look_between: true,
        dry_run: false,
        tell_looks: false,
    }
}

type FakeAgent = Agent<Shared, FakeInventory, Shared, Shared>;

struct FakeInventory {
    node: Shared,
    look: Look,
}

impl Inventory for FakeInventory {
    fn look(&mut self) -> Result<&Look, LookError> {
        self.node.0.borrow_mut().looks += 1;
        if self.node.0.borrow().look_fails {
            return Err(LookError("the figures cannot be read".into()));
        }
        let available = self.node.available();
        self.look.taken = clock::now();
        self.look.summary.memory = Some(MemoryStats {
            time: Some(self.look.taken),
            available: Some(available),
            usage: None,
            working_set: Some(TOTAL - available),
        });
        let node = self.node.0.borrow();
        // What has moved has no figures until it is followed.
        let disk_free = node.disk_free.filter(|_| node.moved.is_empty());
        self.look.summary.nodefs = disk_free.map(|free| FsStats {
            time: Some(self.look.taken),
            available: Some(free * MIB),
            capacity: Some(TOTAL),
            ..FsStats::default()
        });
        drop(node);
        Ok(&self.look)
    }

    fn follow(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.node.0.borrow_mut().moved)
    }

    fn unread(&self) -> Option<String> {
        self.node.0.borrow().unread.clone()
    }

    fn limits_due(&self) -> Option<Duration> {
        self.node.0.borrow().limits.map(|_| Duration::ZERO)
    }

    fn check_limits(&mut self, _growth: &Growth) -> LimitsLook {
        let mut node = self.node.0.borrow_mut();
        let found = node.limits.unwrap_or_default();
        node.limits = Some(LimitsLook {
            newly_broken: false,
            ..found
        });
        found
    }

    fn snapshot(&mut self, _growth: &Growth) -> Snapshot {
        self.node.0.borrow_mut().snapshots += 1;
        let node = self.node.0.borrow();
        let pod = |name: &'static str| {
            let mut pod = Pod::workload(Uid::new(name), name, 0);
            pod.protection = node
                .protected
                .contains(&name)
                .then(|| Protection::Configured("the test".into()));
            pod
        };
        let observed = |(name, mib): (&&'static str, &u64)| ObservedPod {
            pod: Arc::new(pod(name)),
            stats: Some(PodStats {
                memory: Some(MemoryStats {
                    working_set: Some(mib * MIB),
                    ..MemoryStats::default()
                }),
                ..PodStats::default()
            }),
        };
        Snapshot {
            taken: self.look.taken,
            summary: self.look.summary.clone(),
            pods: node.used.iter().map(observed).collect(),
            layout: Some(Default::default()),
        }
    }
}

impl Executor for Shared {
    fn evict(&mut self, _id: u64, eviction: &Eviction) -> Result<Begun, KillError> {
        let mut node = self.0.borrow_mut();
        let name = eviction.pod.name.as_str();
        let grace = eviction.time_to_leave();
        let grace = grace.map(|grace| Duration::from_nanos(grace.as_nanos() as u64));
        if node.asks {
            node.asked.push(name.to_owned());
            return Ok(Begun::Asked(report(), grace.unwrap_or_default()));
        }
        if let Some(grace) = grace {
            node.asked.push(name.to_owned());
            return Ok(Begun::Leaving(report(), grace));
        }
        if node.unkillable.contains(&name) {
            return Err(KillError::Failed("permission denied".into()));
        }
        node.killed.push(name.to_owned());
        Ok(Begun::Killed(report()))
    }

    fn may_go_unanswered(&mut self, uid: &Uid) -> bool {
        let mut node = self.0.borrow_mut();
        node.urgent.push(uid.as_str().to_owned());
        node.may_go_unanswered
    }

    fn end_grace(&mut self, uid: &Uid) -> Result<KillReport, KillError> {
        let mut node = self.0.borrow_mut();
        node.stubborn.retain(|name| *name != uid.as_str());
        node.killed.push(uid.as_str().to_owned());
        Ok(report())
    }

    fn take_over(&mut self, uid: &Uid, name: &str, _killed: bool) -> bool {
        uid.as_str() == name && self.0.borrow().used.contains_key(name)
    }

    fn processes(&self, _eviction: &Eviction) -> Option<usize> {
        Some(7)
    }

    fn reclaims_by(&self) -> Option<ReclaimBy> {
        self.0.borrow().reclaim.as_ref().map(|reclaim| reclaim.by)
    }

    fn reclaim(&mut self, order: ReclaimOrder) {
        self.0.borrow_mut().reclaims.push(order.signal);
    }

    fn reclaimed(&mut self) -> Option<ReclaimReport> {
        let mut node = self.0.borrow_mut();
        let begun = node.reclaims.len();
        let reclaim = node.reclaim.as_mut()?;
        if begun == reclaim.ended || !reclaim.may_end {
            return None;
        }
        reclaim.ended = begun;
        let (frees, end) = (reclaim.frees, reclaim.end.clone());
        if let Some(free) = &mut node.disk_free {
            *free += frees;
        }
        Some(ReclaimReport {
            took: Duration::from_millis(1),
            end,
            removed: None,
        })
    }

    fn removal(&mut self, uid: &Uid) -> Removal {
        let mut node = self.0.borrow_mut();
        match node.answers.get(uid.as_str()).cloned() {
            Some(Removal::Refused(refusal)) => {
                // Until it is asked for again.
                node.answers.remove(uid.as_str());
                return Removal::Refused(refusal);
            }
            Some(Removal::Bypassed(why)) if !node.killed.iter().any(|n| n == uid.as_str()) => {
                return Removal::Bypassed(why);
            }
            Some(Removal::Unanswered) => return Removal::Unanswered,
            _ => {}
        }
        if node.stubborn.contains(&uid.as_str()) {
            return Removal::Running;
        }
        if node.lingering > 0 {
            node.lingering -= 1;
            return Removal::Running;
        }
        node.used.remove(uid.as_str());
        Removal::Gone
    }
}

fn report() -> KillReport {
    KillReport {
        done: clock::now(),
        method: "fake",
        processes: 1,
    }
}

impl Journal for Shared {
    fn record(&mut self, entry: Entry) {
        self.0.borrow_mut().entries.push(entry);
    }
}

impl PressureSource for Shared {
    fn mark(&mut self) {}

    fn arm(&mut self, _signal: Signal, distance: Distance) -> Option<PressureEvent> {
        let mut node = self.0.borrow_mut();
        node.armed.push(distance);
        if node.crossed_while_arming > 0 {
            node.crossed_while_arming -= 1;
            return Some(PressureEvent {
                while_arming: true,
                ..event()
            });
        }
        None
    }

    fn disarm(&mut self, _signal: Signal) {}

    fn covers(&self, _signal: Signal) -> bool {
        true
    }

    async fn next(&mut self) -> PressureEvent {
        loop {
            if let Some(event) = self.0.borrow_mut().event.take() {
                return event;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn pending(&mut self) -> Option<PressureEvent> {
        self.0.borrow_mut().event.take()
    }

    fn upkeep(&mut self) {}

    fn follow(&mut self, moved: &Moved) {
        let signals = moved.signals.iter().map(|line| line.signal);
        self.0.borrow_mut().followed.extend(signals);
    }

    fn coverage(&self, _signal: Signal) -> Option<Coverage> {
        self.0.borrow().coverage.clone()
    }

    fn growth(&mut self) -> Growth {
        Growth::default()
    }

    fn lost_events(&mut self) -> u64 {
        self.0.borrow().lost
    }

    fn forgotten_counts(&mut self) -> u64 {
        0
    }

    fn oom_victims(&mut self) -> Vec<OomVictim> {
        std::mem::take(&mut self.0.borrow_mut().victims)
    }

    fn silent_hooks(&mut self) -> Vec<SilentHook> {
        std::mem::take(&mut self.0.borrow_mut().silent)
    }
}

fn event() -> PressureEvent {
    PressureEvent {
        time: clock::now(),
        signal: Signal::MemoryAvailable,
        cgroup: 1,
        amount: 1,
        pid: 1,
        while_arming: false,
        rung: "fentry/page_counter_try_charge",
    }
}
