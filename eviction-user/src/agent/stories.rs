//! Stories of the loop on a node made of plain numbers. The fakes fail as real cgroups cannot be made to.

use super::{Agent, Lines, Settings};
use crate::model::{
    Eviction, EvictionCause, Limit, MemoryStats, ObservedPod, Pod, PodStats, Protection, Quantity,
    Signal, Snapshot, Summary, Threshold, Timestamp, Uid,
};
use crate::policy::{Engine, EngineConfig};
use crate::ports::{
    Distance, Entry, Executor, Growth, Inventory, Journal, KillError, KillReport, Look, LookError,
    OomVictim, PressureEvent, PressureSource, Removal, SilentHook, Started, Wake,
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
        let limit = Limit::Quantity("100Mi".parse::<Quantity>().unwrap());
        let thresholds = vec![Threshold::hard(Signal::MemoryAvailable, limit)];
        let engine = Engine::new(EngineConfig::with_thresholds(thresholds.clone()));
        let lines = Lines::new(thresholds);
        let look = Look {
            taken: clock::now(),
            summary: Summary::default(),
            group_usage: 0,
        };
        let inventory = FakeInventory {
            node: self.clone(),
            look,
        };
        let mut agent = Agent::new(
            self.clone(),
            inventory,
            self.clone(),
            self.clone(),
            engine,
            lines,
            settings,
        );
        let how = Started {
            sources: vec![("memory", "fake")],
            notes: Vec::new(),
        };
        let stop = async {
            tokio::time::sleep(Duration::from_millis(40)).await;
            during(self);
            tokio::time::sleep(Duration::from_millis(120)).await;
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

fn settings() -> Settings {
    Settings {
        interval: Duration::from_secs(10),
        look_between: true,
        dry_run: false,
    }
}

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
        Ok(&self.look)
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
    fn evict(&mut self, eviction: &Eviction) -> Result<KillReport, KillError> {
        let mut node = self.0.borrow_mut();
        let name = eviction.pod.name.as_str();
        if node.unkillable.contains(&name) {
            return Err(KillError::Failed("permission denied".into()));
        }
        node.killed.push(name.to_owned());
        Ok(KillReport {
            done: clock::now(),
            method: "fake",
            processes: 1,
        })
    }

    fn removal(&mut self, uid: &Uid) -> Removal {
        let mut node = self.0.borrow_mut();
        if node.lingering > 0 {
            node.lingering -= 1;
            return Removal::Running;
        }
        node.used.remove(uid.as_str());
        Removal::Gone
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

    fn growth(&mut self) -> Growth {
        Growth::default()
    }

    fn lost_events(&mut self) -> u64 {
        self.0.borrow().lost
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

#[tokio::test]
async fn a_calm_node_loses_nobody_and_is_armed_with_its_distance() {
    let node = Shared::new(&[("a", 200), ("b", 300)]);
    node.run(settings(), |_| {}).await;
    assert!(node.0.borrow().killed.is_empty());
    let left = i64::try_from(400 * MIB).unwrap() + 1;
    assert_eq!(node.0.borrow().armed[0], Distance { left, level: None });
}

/// User case 3: notified in time, decided on old data.
#[tokio::test]
async fn case_3_an_event_leads_to_a_decision_on_a_fresh_look() {
    let node = Shared::new(&[("a", 200), ("hog", 300)]);
    node.run(settings(), |node| {
        node.0.borrow_mut().used.insert("hog", 750);
        node.0.borrow_mut().event = Some(event());
    })
    .await;
    assert_eq!(
        node.decisions(),
        [("hog".to_owned(), "fentry/page_counter_try_charge")]
    );
    let node = node.0.borrow();
    let ages = node.entries.iter().filter_map(|entry| match entry {
        Entry::Decision {
            looked, decided, ..
        } => Some(clock::between(*looked, *decided)),
        _ => None,
    });
    assert!(ages.max().unwrap() < Duration::from_millis(50));
}

/// The heartbeat's look and the event may fall together: what the kernel said is not credited to the timer.
#[tokio::test]
async fn an_event_that_came_during_the_look_is_what_led_to_the_decision() {
    let node = Shared::new(&[("hog", 950)]);
    node.0.borrow_mut().event = Some(event());
    node.run(settings(), |_| {}).await;
    let woken_by = "fentry/page_counter_try_charge";
    assert_eq!(node.decisions(), [("hog".to_owned(), woken_by)]);
}

/// User case 32: the next one evicted while the last was still on its way out.
#[tokio::test]
async fn case_32_while_a_victim_lingers_no_second_one_is_chosen() {
    let node = Shared::new(&[("a", 450), ("b", 460)]);
    node.0.borrow_mut().lingering = u32::MAX;
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    assert_eq!(node.0.borrow().killed, ["b"]);
}

#[tokio::test]
async fn when_the_victim_is_gone_and_it_was_not_enough_the_next_one_goes_at_once() {
    let node = Shared::new(&[("a", 60), ("b", 70), ("kept", 855)]);
    node.0.borrow_mut().protected = vec!["kept"];
    node.run(settings(), |_| {}).await;
    assert_eq!(node.0.borrow().killed, ["b", "a"]);
    assert_eq!(node.decisions()[1].1, "victim-gone");
}

#[tokio::test]
async fn a_kill_that_fails_is_told_and_the_next_candidate_goes() {
    let node = Shared::new(&[("a", 400), ("b", 550)]);
    node.0.borrow_mut().unkillable = vec!["b"];
    node.run(settings(), |_| {}).await;
    assert_eq!(node.0.borrow().killed, ["a"]);
    let node = node.0.borrow();
    let told = node
        .entries
        .iter()
        .any(|e| matches!(e, Entry::KillFailed { reason, .. } if reason == "permission denied"));
    assert!(told, "{:?}", node.entries);
}

#[tokio::test]
async fn a_dry_run_decides_once_a_cycle_and_kills_nobody() {
    let node = Shared::new(&[("a", 400), ("b", 550)]);
    let dry = Settings {
        dry_run: true,
        ..settings()
    };
    node.run(dry.clone(), |_| {}).await;
    assert_eq!(node.decisions().len(), 1, "one cycle in this time");
    let often = Settings {
        interval: Duration::from_millis(50),
        ..dry
    };
    node.run(often, |_| {}).await;
    let victims: Vec<_> = node.decisions().into_iter().map(|d| d.0).collect();
    assert!((3..=6).contains(&victims.len()), "{victims:?}");
    assert!(victims.iter().all(|v| v == "b"), "{victims:?}");
    assert!(node.0.borrow().killed.is_empty());
}

#[tokio::test]
async fn a_line_crossed_while_it_was_armed_is_looked_at_again_at_once() {
    let node = Shared::new(&[("a", 200)]);
    node.0.borrow_mut().crossed_while_arming = 3;
    let mut looks = 0;
    node.run(settings(), |node| looks = node.0.borrow().looks)
        .await;
    assert!(
        looks >= 4,
        "{looks} looks in the first 40 ms, the heartbeat is a second"
    );
}

/// Extra good samples would reset soft grace periods that the kubelet lets run.
#[tokio::test]
async fn looks_that_find_nothing_new_never_reach_the_engine() {
    let node = Shared::new(&[("a", 200)]);
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    let node = node.0.borrow();
    assert!(node.looks >= 2, "the event led to a look");
    assert_eq!(node.snapshots, 1, "the first cycle alone");
    let told = node
        .entries
        .iter()
        .any(|e| matches!(e, Entry::Event { .. }));
    assert!(!told, "an event that led nowhere is no line for a person");
}

#[tokio::test]
async fn lost_events_are_told_once() {
    let node = Shared::new(&[("a", 200)]);
    node.0.borrow_mut().lost = 7;
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    let node = node.0.borrow();
    let lost: Vec<_> = node
        .entries
        .iter()
        .filter(|e| matches!(e, Entry::EventsLost { count: 7 }))
        .collect();
    assert_eq!(lost.len(), 1);
}

#[tokio::test]
async fn an_oom_kill_a_silent_hook_and_a_late_event_are_told_and_kill_nobody() {
    let node = Shared::new(&[("a", 200)]);
    node.0.borrow_mut().silent.push(SilentHook {
        signal: Signal::MemoryAvailable,
        rung: "fake",
        unseen: 1 << 30,
    });
    node.run(settings(), |node| {
        let mut node = node.0.borrow_mut();
        node.victims.push(OomVictim {
            time: clock::now(),
            pid: 7,
            cgroup: 3,
        });
        node.event = Some(PressureEvent {
            time: Timestamp::from_nanos(clock::now().as_nanos() - 1_000_000_000),
            ..event()
        });
    })
    .await;
    let node = node.0.borrow();
    let told = node.entries.iter().filter_map(|entry| match entry {
        Entry::HookSilent { hook, .. } => Some(("silent", hook.unseen.unsigned_abs())),
        Entry::OomKill { victim } => Some(("victim", victim.pid.into())),
        Entry::EventLate { event, received } => {
            let waited = clock::between(event.time, *received);
            Some(("late", waited.as_secs()))
        }
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [("silent", 1 << 30), ("victim", 7), ("late", 1)]);
    assert!(node.killed.is_empty());
}

#[tokio::test]
async fn a_look_that_fails_kills_nobody_is_told_once_and_tried_again_calmly() {
    let node = Shared::new(&[("a", 950)]);
    node.0.borrow_mut().look_fails = true;
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    let node = node.0.borrow();
    assert!(node.killed.is_empty());
    let told = node
        .entries
        .iter()
        .filter(|e| matches!(e, Entry::LookFailed { .. }))
        .count();
    assert_eq!((told, node.looks), (1, 2), "at the start and at the event");
}

#[tokio::test]
async fn the_reason_of_a_decision_is_the_threshold_with_its_reading() {
    let node = Shared::new(&[("hog", 950)]);
    node.run(settings(), |_| {}).await;
    let node = node.0.borrow();
    let cause = node.entries.iter().find_map(|entry| match entry {
        Entry::Decision {
            eviction,
            wake: Wake::Start,
            ..
        } => Some(&eviction.cause),
        _ => None,
    });
    let Some(EvictionCause::Pressure {
        threshold,
        observed,
        ..
    }) = cause
    else {
        panic!("{cause:?}")
    };
    assert_eq!(threshold.signal, Signal::MemoryAvailable);
    assert_eq!(
        observed.map(|o| o.available),
        Some(i64::try_from(50 * MIB).unwrap())
    );
    assert!(Timestamp::from_nanos(0) < observed.and_then(|o| o.time).unwrap());
}
