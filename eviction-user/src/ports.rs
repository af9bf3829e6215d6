//! What the agent needs from the world: something that says "look now", something to look at,
//! something that kills, somewhere to say what was done. Traits only where there are two real forms,
//! or one and a fake that can fail as the real one cannot be made to.

use crate::model::{
    Action, Eviction, Ranking, Resource, Signal, Snapshot, Summary, Timestamp, Uid,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

mod growth;
mod moved;
mod reclaim;
mod record_id;
mod removal;
pub use growth::{Consumer, Grown, Growth};
pub use moved::{Coverage, FsPlace, Moved, MovedSignal};
pub use reclaim::{
    Freed, NodeReclaim, PodFate, ReclaimBy, ReclaimEnd, ReclaimOrder, ReclaimReport, Removed,
};
pub use record_id::record_id;
pub use removal::{Begun, KillError, KillReport, Refusal, Removal};

/// How far a line is away, as one look found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Distance {
    /// Bytes, inodes or tasks that may still be used before the line is crossed; 0 or less: it is.
    pub left: i64,
    /// Memory only: bytes in use, by the kernel's counter of the group or node, below which the line cannot be crossed.
    pub level: Option<u64>,
}

/// Why a look is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// The first look.
    Start,
    Event(PressureEvent),
    /// The heartbeat, for what no event covers.
    Heartbeat,
    /// The monitoring interval or the engine's own deadline.
    Interval,
    VictimGone,
    /// A node-level reclaim has ended.
    Reclaimed,
}

impl Wake {
    /// Stable name for records and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Event(event) => event.rung,
            Self::Heartbeat => "timer",
            Self::Interval => "interval",
            Self::VictimGone => "victim-gone",
            Self::Reclaimed => "reclaimed",
        }
    }
}

/// What a kernel program sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PressureEvent {
    /// When the program ran (CLOCK_MONOTONIC).
    pub time: Timestamp,
    /// Whose line it was; where several lie on one device, the nearest one's.
    pub signal: Signal,
    /// The charged cgroup, in the hierarchy of the memory controller; 0: unknown.
    pub cgroup: u64,
    /// Pages, bytes, inodes or tasks spent since the line was armed.
    pub amount: u64,
    pub pid: u32,
    /// Found in the kernel's counters when the line was armed: it had been crossed since the look began.
    pub while_arming: bool,
    /// Which hook sent it.
    pub rung: &'static str,
}

/// Says when to look. No method has a default: a source that wraps another must not pass over one.
pub trait PressureSource {
    /// Notes what has been spent so far. Must come *before* the look whose distances are armed:
    /// what is charged between the two then counts twice rather than not at all.
    fn mark(&mut self);

    /// Arms with what the look found. A line that has been crossed since the mark is told at once, and its
    /// look is due now.
    fn arm(&mut self, signal: Signal, distance: Distance) -> Option<PressureEvent>;

    fn disarm(&mut self, signal: Signal);

    /// Does the kernel say when this signal's line is crossed, so that the timer is only a safety net?
    fn covers(&self, signal: Signal) -> bool;

    /// The next event. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = PressureEvent>;

    /// An event that has come already, without waiting.
    fn pending(&mut self) -> Option<PressureEvent>;

    /// Follows what has changed in the machine. To be called now and then, before a look that no event asked for.
    fn upkeep(&mut self);

    /// A watched path leads to another file system: its lines are about that one from here on. They are not covered until
    /// they are armed again, which may take a while (hooks for it may have to be attached first).
    fn follow(&mut self, moved: &Moved);

    /// Who says when to look at a line that has moved; `None`: that is being settled.
    fn coverage(&self, signal: Signal) -> Option<Coverage>;

    /// What each cgroup has used up on the watched file systems since it was first seen there.
    fn growth(&mut self) -> Growth;

    /// Events that the kernel side could not hand over, in all.
    fn lost_events(&mut self) -> u64;

    /// Cgroups' shares of a file system that were forgotten because the kernel's table was full, in all: what they have used
    /// up since they were first seen is counted from anew.
    fn forgotten_counts(&mut self) -> u64;

    /// Hooks that turned out to be silent since the last call. Until they are heard again they cover nothing.
    fn silent_hooks(&mut self) -> Vec<SilentHook>;

    /// Victims of the OOM killer that became known since the last call. Each comes as an event too: after it a look is due.
    fn oom_victims(&mut self) -> Vec<OomVictim>;
}

/// A process that the kernel's OOM killer has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomVictim {
    /// When it was marked (CLOCK_MONOTONIC).
    pub time: Timestamp,
    pub pid: u32,
    /// Its cgroup, in the hierarchy of the memory controller; 0: unknown.
    pub cgroup: u64,
}

/// A hook that did not see what was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SilentHook {
    pub signal: Signal,
    pub rung: &'static str,
    /// Bytes, inodes or tasks by which the signal fell while the hook saw nothing at all.
    pub unseen: i64,
}

/// Since the start the kernel's counter of OOM kills and the events do not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OomMismatch {
    /// 0: the node, for what its watched cgroups do not explain.
    pub cgroup: u64,
    /// By the kernel's counter.
    pub counted: u64,
    /// By events. More than were counted: some victims were exiting already, which is no kill.
    pub seen: u64,
}

/// One look at the node: what the thresholds are compared with.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    pub taken: Timestamp,
    pub summary: Summary,
    /// Bytes by which the node's working set exceeds what the node's own counters say: cgroups are summed up lazily.
    pub node_excess: u64,
    /// Bytes by which it falls short of them.
    pub node_lead: u64,
}

/// Why a look failed; the adapter says it in its own words.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct LookError(#[from] pub Box<dyn std::error::Error + Send + Sync>);

/// What is there to be observed and evicted.
pub trait Inventory {
    /// Reads the node's figures now, into a value that is reused.
    fn look(&mut self) -> Result<&Look, LookError>;

    /// OOM kills on the node since it was started, if the kernel tells.
    fn node_oom_kills(&mut self) -> Option<u64> {
        None
    }

    /// Follows watched paths that the last look found on another file system.
    fn follow(&mut self) -> Vec<Moved> {
        Vec::new()
    }

    /// When to ask again, while what a path leads to is being opened.
    fn follow_in(&self) -> Option<Duration> {
        None
    }

    /// What the last look could not read although the rest was there.
    fn unread(&self) -> Option<String>;

    /// OOM kills by the kernel's own counters: by cgroup id where something is watched, 0 for the node.
    fn oom_counts(&mut self) -> BTreeMap<u64, u64> {
        BTreeMap::new()
    }

    /// Is the growth wanted although no decision is due?
    fn wants_growth(&self) -> bool {
        false
    }

    /// The growth by now, which a scan that begins at this moment goes by.
    fn take_growth(&mut self, _growth: &Growth) {}

    /// When it makes sense to compare workloads with limits of their own again; `None`: that is not done.
    fn limits_due(&self) -> Option<Duration> {
        None
    }

    /// Compares what workloads hold on disks with limits of their own.
    fn check_limits(&mut self, _growth: &Growth) -> LimitsLook {
        LimitsLook::default()
    }

    /// The full picture for a decision: the last look and each workload's use, read now.
    fn snapshot(&mut self, growth: &Growth) -> Snapshot;
}

/// How near workloads are to limits of their own on what they hold on disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitsLook {
    /// One is broken that was not the last time: a decision is due.
    pub newly_broken: bool,
    /// Bytes that may be used up, by anybody, before the next check; `None`: nobody has a limit that still holds.
    pub left: Option<u64>,
    /// When the next check is due all the same.
    pub again: Duration,
}

/// Carries out evictions.
pub trait Executor {
    /// Kills at once where nobody has to be asked; returns when the signals are sent, not when the victim is gone. A victim that has
    /// time to leave is told to. `id`: of all its records.
    fn evict(&mut self, id: u64, eviction: &Eviction) -> Result<Begun, KillError>;

    /// Takes over a victim of an earlier process; `false`: it is gone.
    fn take_over(&mut self, uid: &Uid, name: &str, killed: bool) -> bool;

    /// May a victim be killed although whoever was asked has not answered yet? If not, the answer is urgent from now on.
    fn may_go_unanswered(&mut self, uid: &Uid) -> bool;

    /// Kills a victim that was asked to leave and has not.
    fn end_grace(&mut self, uid: &Uid) -> Result<KillReport, KillError>;

    /// Is the victim gone? Kills again what has appeared since it was killed.
    fn removal(&mut self, uid: &Uid) -> Removal;

    /// How many processes an eviction would hit; `None`: it cannot be told.
    fn processes(&self, eviction: &Eviction) -> Option<usize>;

    /// Who frees node-level resources, if anybody does.
    fn reclaims_by(&self) -> Option<ReclaimBy>;

    /// Begins to free node-level resources, and does not wait for the end.
    fn reclaim(&mut self, order: ReclaimOrder);

    /// How the reclaim went, once it has ended.
    fn reclaimed(&mut self) -> Option<ReclaimReport>;
}

/// Says what was done. Must never block: it is called on the fast path.
pub trait Journal {
    fn record(&mut self, entry: Entry);
}

/// How the agent works on this machine, known when its lines are armed for the first time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// Family of hooks (memory, inodes, ...) and where its events come from; the timer's name where none do.
    pub sources: Vec<(&'static str, &'static str)>,
    /// What is not as good as it could be, each with its fix.
    pub notes: Vec<String>,
    /// Each step that events could come from, best first within its family.
    pub ladder: Vec<LadderStep>,
    /// Where metrics are served, if anywhere: the port is known only when it is bound.
    pub metrics: Option<SocketAddr>,
}

/// One of the ways to hear of a family's events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LadderStep {
    pub family: &'static str,
    /// What its events tell of being used up; `None` for a family that is never armed.
    pub resource: Option<Resource>,
    /// The hook's name, or that of a notification.
    pub name: &'static str,
    /// At how many places the kernel is hooked for it; 0: it is not used.
    pub places: usize,
    /// Why not.
    pub why_not: Option<String>,
}

impl Started {
    /// The source of one family; `none` for one that nobody asked for.
    pub fn source(&self, family: &str) -> &'static str {
        let found = self.sources.iter().find(|(name, _)| *name == family);
        found.map_or("none", |(_, source)| source)
    }
}

impl LadderStep {
    pub fn is_used(&self) -> bool {
        self.places > 0
    }
}

/// One thing that happened.
#[derive(Debug, Clone)]
pub enum Entry {
    Started {
        at: Timestamp,
        how: Started,
    },
    Event {
        event: PressureEvent,
        received: Timestamp,
    },
    /// Every look, for whoever asks for them.
    Look {
        began: Timestamp,
        wake: Wake,
        /// Bytes, inodes or tasks left to each signal's nearest line.
        left: [Option<i64>; Signal::ALL.len()],
    },
    Decision {
        id: u64,
        decided: Timestamp,
        wake: Wake,
        looked: Timestamp,
        dry_run: bool,
        /// How many processes it would hit; asked in a dry run only.
        processes: Option<usize>,
        eviction: Box<Eviction>,
    },
    /// An earlier process chose this victim, and it is still there.
    TakenOver {
        id: u64,
        uid: Uid,
        at: Timestamp,
        /// Until it is killed; `None`: it has been.
        grace: Option<Duration>,
    },
    /// The victim has so long to leave by itself; zero: it is killed when whoever is asked grants that.
    Asked {
        id: u64,
        uid: Uid,
        report: KillReport,
        grace: Duration,
    },
    /// The victim may stay: whoever was asked does not grant its end.
    Refused {
        id: u64,
        uid: Uid,
        refusal: Refusal,
    },
    /// Whoever was asked does not answer, so the victim is killed without.
    Bypassed {
        id: u64,
        uid: Uid,
        reason: String,
    },
    Kill {
        id: u64,
        uid: Uid,
        report: KillReport,
        wake: Wake,
    },
    KillFailed {
        id: u64,
        uid: Uid,
        reason: String,
    },
    Gone {
        id: u64,
        uid: Uid,
        at: Timestamp,
        after: Duration,
    },
    StillThere {
        id: u64,
        uid: Uid,
        after: Duration,
    },
    NoCandidate {
        at: Timestamp,
        ranking: Box<Ranking>,
    },
    /// Node-level resources are being freed; in a dry run they would be.
    Reclaim {
        at: Timestamp,
        order: ReclaimOrder,
        by: ReclaimBy,
    },
    Reclaimed {
        at: Timestamp,
        signal: Signal,
        dry_run: bool,
        report: ReclaimReport,
        /// On the signal's file system, whoever freed it; `None`: it could not be read.
        freed: Option<Freed>,
        /// For so long it is not tried again, because it was in vain.
        rest: Option<Duration>,
    },
    /// What else the engine said: conditions, node events, holds.
    Engine {
        at: Timestamp,
        action: Action,
    },
    /// A watched path leads to another file system.
    Moved {
        at: Timestamp,
        moved: Moved,
        /// In the order of its signals.
        coverage: Vec<Coverage>,
    },
    LookFailed {
        reason: String,
    },
    EventsLost {
        count: u64,
    },
    /// More cgroups use the disk than the kernel's table has room for: rankings miss what some used up before.
    CountsForgotten {
        count: u64,
    },
    /// Looks go on at the timer's pace until it is heard again.
    HookSilent {
        at: Timestamp,
        hook: SilentHook,
    },
    /// An event that waited for its reader.
    EventLate {
        event: PressureEvent,
        received: Timestamp,
    },
    OomKill {
        victim: OomVictim,
    },
    OomMismatch {
        mismatch: OomMismatch,
    },
    /// Entries that the journal itself had no room for.
    RecordsDropped {
        count: u64,
    },
}
