//! What happened beside the engine, as a recording keeps it.

use crate::model::{Signal, Timestamp, Uid};
use crate::ports::{Coverage, Entry, Moved};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::Duration;

type Text = Cow<'static, str>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "note")]
pub enum Note {
    Started {
        at: Timestamp,
        memory: Text,
        inodes: Text,
        /// Family of hooks and its source, since there are more than those two.
        #[serde(default)]
        sources: Vec<(Text, Text)>,
        notes: Vec<String>,
    },
    Event {
        at: Timestamp,
        received: Timestamp,
        watch: Text,
        rung: Text,
        cgroup: u64,
        amount: u64,
        pid: u32,
    },
    /// An eviction was begun; who and why is in the decisions.
    Begun {
        id: u64,
        at: Timestamp,
        looked: Timestamp,
        wake: Text,
        uid: Uid,
        dry_run: bool,
    },
    /// The victim of an earlier process is still there.
    TakenOver {
        id: u64,
        at: Timestamp,
        uid: Uid,
    },
    /// A victim was asked to leave by itself.
    Asked {
        id: u64,
        at: Timestamp,
        uid: Uid,
        processes: u64,
        grace_ms: u64,
    },
    Killed {
        id: u64,
        at: Timestamp,
        uid: Uid,
        method: Text,
        processes: u64,
    },
    /// Whoever was asked to end the victim does not grant it.
    Refused {
        id: u64,
        uid: Uid,
        reason: String,
        again_ms: u64,
    },
    /// Whoever was asked does not answer, so the victim is killed without.
    Bypassed {
        id: u64,
        uid: Uid,
        reason: String,
    },
    KillFailed {
        id: u64,
        uid: Uid,
        reason: String,
    },
    Gone {
        id: u64,
        at: Timestamp,
        uid: Uid,
        /// From the decision on.
        after_us: u64,
    },
    StillThere {
        id: u64,
        uid: Uid,
        /// From the decision on.
        after_us: u64,
    },
    /// Node-level resources were begun to be freed.
    Reclaim {
        at: Timestamp,
        signal: Signal,
        dry_run: bool,
    },
    /// How that ended, in words, and what became available meanwhile.
    Reclaimed {
        at: Timestamp,
        signal: Signal,
        took_ms: u64,
        end: String,
        freed_bytes: Option<i64>,
        freed_inodes: Option<i64>,
    },
    /// A watched path leads to another file system; each signal's source, or why it has none.
    Moved {
        at: Timestamp,
        path: String,
        from: String,
        to: String,
        signals: Vec<(Signal, Text)>,
    },
    LookFailed {
        reason: String,
    },
    EventsLost {
        count: u64,
    },
    CountsForgotten {
        count: u64,
    },
    HookSilent {
        at: Timestamp,
        signal: Text,
        rung: Text,
        unseen: i64,
    },
    EventLate {
        at: Timestamp,
        received: Timestamp,
        rung: Text,
    },
    OomKilled {
        at: Timestamp,
        pid: u32,
        cgroup: u64,
    },
    OomMismatch {
        cgroup: u64,
        counted: u64,
        seen: u64,
    },
    /// Lines that the journal had no room for.
    JournalDropped {
        count: u64,
    },
    /// Notes that the recorder itself had no room for.
    NotesLost {
        count: u64,
    },
}

impl Note {
    /// `None` for what the engine said, whose actions are recorded whole, and for looks, whose figures are.
    pub fn of(entry: &Entry) -> Option<Self> {
        Some(match entry {
            Entry::Started { at, how } => Self::Started {
                at: *at,
                memory: how.source("memory").into(),
                inodes: how.source("inodes").into(),
                sources: how
                    .sources
                    .iter()
                    .map(|(family, source)| ((*family).into(), (*source).into()))
                    .collect(),
                notes: how.notes.clone(),
            },
            Entry::Event { event, received } => Self::Event {
                at: event.time,
                received: *received,
                watch: watch_name(event.signal).into(),
                rung: event.rung.into(),
                cgroup: event.cgroup,
                amount: event.amount,
                pid: event.pid,
            },
            Entry::Decision {
                id,
                decided,
                wake,
                looked,
                dry_run,
                eviction,
                ..
            } => Self::Begun {
                id: *id,
                at: *decided,
                looked: *looked,
                wake: wake.name().into(),
                uid: eviction.uid().clone(),
                dry_run: *dry_run,
            },
            Entry::Kill {
                id, uid, report, ..
            } => Self::Killed {
                id: *id,
                at: report.done,
                uid: uid.clone(),
                method: report.method.into(),
                processes: report.processes as u64,
            },
            Entry::TakenOver { id, uid, at, .. } => Self::TakenOver {
                id: *id,
                at: *at,
                uid: uid.clone(),
            },
            Entry::Asked {
                id,
                uid,
                report,
                grace,
            } => Self::Asked {
                id: *id,
                at: report.done,
                uid: uid.clone(),
                processes: report.processes as u64,
                grace_ms: millis(*grace),
            },
            Entry::Reclaim { at, order, .. } => Self::Reclaim {
                at: *at,
                signal: order.signal,
                dry_run: order.dry_run,
            },
            Entry::Reclaimed {
                at,
                signal,
                report,
                freed,
                ..
            } => Self::Reclaimed {
                at: *at,
                signal: *signal,
                took_ms: millis(report.took),
                end: report.end.to_string(),
                freed_bytes: freed.map(|freed| freed.bytes),
                freed_inodes: freed.map(|freed| freed.inodes),
            },
            Entry::Refused { id, uid, refusal } => Self::Refused {
                id: *id,
                uid: uid.clone(),
                reason: refusal.reason.clone(),
                again_ms: millis(refusal.again),
            },
            Entry::Bypassed { id, uid, reason } => Self::Bypassed {
                id: *id,
                uid: uid.clone(),
                reason: reason.clone(),
            },
            Entry::KillFailed { id, uid, reason } => Self::KillFailed {
                id: *id,
                uid: uid.clone(),
                reason: reason.clone(),
            },
            Entry::Gone { id, uid, at, after } => Self::Gone {
                id: *id,
                at: *at,
                uid: uid.clone(),
                after_us: micros(*after),
            },
            Entry::StillThere { id, uid, after } => Self::StillThere {
                id: *id,
                uid: uid.clone(),
                after_us: micros(*after),
            },
            Entry::Moved {
                at,
                moved,
                coverage,
            } => Self::moved(*at, moved, coverage),
            Entry::LookFailed { reason } => Self::LookFailed {
                reason: reason.clone(),
            },
            Entry::EventsLost { count } => Self::EventsLost { count: *count },
            Entry::CountsForgotten { count } => Self::CountsForgotten { count: *count },
            Entry::HookSilent { at, hook } => Self::HookSilent {
                at: *at,
                signal: hook.signal.name().into(),
                rung: hook.rung.into(),
                unseen: hook.unseen,
            },
            Entry::EventLate { event, received } => Self::EventLate {
                at: event.time,
                received: *received,
                rung: event.rung.into(),
            },
            Entry::OomKill { victim } => Self::OomKilled {
                at: victim.time,
                pid: victim.pid,
                cgroup: victim.cgroup,
            },
            Entry::OomMismatch { mismatch } => Self::OomMismatch {
                cgroup: mismatch.cgroup,
                counted: mismatch.counted,
                seen: mismatch.seen,
            },
            Entry::RecordsDropped { count } => Self::JournalDropped { count: *count },
            Entry::NoCandidate { .. } | Entry::Engine { .. } | Entry::Look { .. } => return None,
        })
    }
}

impl Note {
    fn moved(at: Timestamp, moved: &Moved, coverage: &[Coverage]) -> Self {
        let lines = moved.signals.iter().zip(coverage);
        let source = |coverage: &Coverage| match coverage {
            Coverage::Hook(hook) => Text::from(*hook),
            Coverage::Timer(why) => Text::from(why.clone()),
        };
        Self::Moved {
            at,
            path: moved.path.display().to_string(),
            from: moved.from.to_string(),
            to: moved.to.to_string(),
            signals: lines
                .map(|(moved, coverage)| (moved.signal, source(coverage)))
                .collect(),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The first three have had their names since before the others could be armed.
fn watch_name(signal: Signal) -> &'static str {
    match signal {
        Signal::MemoryAvailable => "node-memory",
        Signal::AllocatableMemoryAvailable => "group-memory",
        Signal::NodeFsInodesFree => "inodes",
        other => other.name(),
    }
}
