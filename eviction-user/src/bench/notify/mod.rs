//! How soon is a crossing heard of? One process takes memory until its cgroup's counter is over a line; each source in turn
//! says so to a listener that waits in user space. The time runs from just before the page that takes the counter over to
//! the listener's first instruction.

mod kernel;
mod listener;
mod memcg;
mod memory_events;
mod poll;
mod rounds;
mod wakeup;

pub use rounds::{Settings, run};

use super::Storm;
use super::stats::Sorted;
use crate::sys::cgroup::Version;
use std::time::Duration;

/// What says that the line has been crossed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The product's own path: hook, ring buffer, fast thread.
    Bpf,
    /// cgroup v1's `cgroup.event_control`, heard by an ordinary thread.
    MemcgEventfd,
    /// The same, heard by a thread under SCHED_FIFO.
    MemcgEventfdFifo,
    /// cgroup v2's `memory.events` with the line as `memory.high`, heard by an ordinary thread.
    MemoryEvents,
    MemoryEventsFifo,
    /// An ordinary thread that reads the counter each millisecond.
    Poll,
    /// No source: how long it takes to wake a SCHED_FIFO thread on another CPU through an eventfd.
    Wakeup,
}

impl Source {
    /// Those that this cgroup version has, in the order in which they take turns.
    pub fn of(version: Version) -> [Self; 5] {
        match version {
            Version::V1 => [
                Self::Bpf,
                Self::MemcgEventfd,
                Self::MemcgEventfdFifo,
                Self::Poll,
                Self::Wakeup,
            ],
            Version::V2 => [
                Self::Bpf,
                Self::MemoryEvents,
                Self::MemoryEventsFifo,
                Self::Poll,
                Self::Wakeup,
            ],
        }
    }

    /// Those that are measured during storms: ours, and the floor below it.
    pub(super) const fn bears_storms(self) -> bool {
        matches!(self, Self::Bpf | Self::Wakeup)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Bpf => "bpf",
            Self::MemcgEventfd => "memcg-eventfd",
            Self::MemcgEventfdFifo => "memcg-eventfd-fifo",
            Self::MemoryEvents => "memory-events",
            Self::MemoryEventsFifo => "memory-events-fifo",
            Self::Poll => "poll-1ms",
            Self::Wakeup => "wakeup",
        }
    }
}

/// What one source has to show.
#[derive(Debug)]
pub struct Row {
    pub source: Source,
    /// The hook in use, or the kernel's file.
    pub rung: &'static str,
    pub rounds: u64,
    /// Crossings that were not heard of within [`LISTENING`].
    pub missed: u64,
    /// Microseconds.
    pub latencies: Sorted,
    /// Taken while this raged.
    pub storm: Option<StormRow>,
}

/// A storm, and what the kernel side told of it in all rounds together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StormRow {
    pub storm: Storm,
    /// How often its line was armed.
    pub armings: u64,
    /// Events of that line: at most one per arming, however many inodes or tasks were made.
    pub events: u64,
    /// Inodes or tasks that these events stand for.
    pub units: u64,
}

/// How long a listener waits.
pub const LISTENING: Duration = Duration::from_secs(10);
