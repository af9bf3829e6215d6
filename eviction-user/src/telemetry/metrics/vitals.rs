//! What the loop says of itself while it runs, for whoever asks from another thread: plain atomics, so that saying it
//! costs next to nothing and never waits.

use crate::model::{Signal, Timestamp};
use crate::sys::clock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// So long the first turn may take to come: loading the programs takes seconds on a slow machine.
const STARTING: Duration = Duration::from_secs(60);
/// Pairs of rung and signal that are told apart; a node has some twenty. What comes after them counts with the last.
const PAIRS: usize = 64;
/// No line there, or no reading of it.
const NO_LINE: i64 = i64::MIN;

/// Written by the loop's thread alone. Each figure stands for itself, so none has to be in step with another.
#[derive(Debug)]
pub struct Vitals {
    /// CLOCK_MONOTONIC, in nanoseconds; 0: never.
    last_turn: AtomicI64,
    due: AtomicI64,
    blind: AtomicBool,
    left: [AtomicI64; Signal::ALL.len()],
    leaving: AtomicUsize,
    workloads: AtomicUsize,
    unmapped: AtomicUsize,
    malformed: AtomicUsize,
    looks: AtomicU64,
    looks_failed: AtomicU64,
    heard: [Heard; PAIRS],
    /// Counted elsewhere: pods that were turned away.
    refused: OnceLock<Arc<AtomicU64>>,
}

/// How a turn has left things.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turned {
    /// Within this time the next one begins.
    pub wait: Duration,
    /// The look failed: no line is armed.
    pub blind: bool,
    /// Bytes, inodes or tasks to each signal's nearest line.
    pub left: [Option<i64>; Signal::ALL.len()],
    /// Victims on their way out.
    pub leaving: usize,
}

/// A rung and a signal, once there was an event of the two.
#[derive(Debug, Default)]
struct Heard {
    pair: OnceLock<(&'static str, Signal)>,
    events: AtomicU64,
}

impl Vitals {
    pub fn new(now: Timestamp) -> Self {
        Self {
            last_turn: AtomicI64::new(0),
            due: AtomicI64::new(after(now, STARTING)),
            blind: AtomicBool::new(false),
            left: [const { AtomicI64::new(NO_LINE) }; Signal::ALL.len()],
            leaving: AtomicUsize::new(0),
            workloads: AtomicUsize::new(0),
            unmapped: AtomicUsize::new(0),
            malformed: AtomicUsize::new(0),
            looks: AtomicU64::new(0),
            looks_failed: AtomicU64::new(0),
            heard: [const {
                Heard {
                    pair: OnceLock::new(),
                    events: AtomicU64::new(0),
                }
            }; PAIRS],
            refused: OnceLock::new(),
        }
    }

    /// A turn has ended at `now`.
    pub fn turned(&self, now: Timestamp, turned: &Turned) {
        for (slot, left) in self.left.iter().zip(turned.left) {
            slot.store(left.unwrap_or(NO_LINE), Relaxed);
        }
        self.leaving.store(turned.leaving, Relaxed);
        self.blind.store(turned.blind, Relaxed);
        self.last_turn.store(now.as_nanos(), Relaxed);
        self.due.store(after(now, turned.wait), Relaxed);
    }

    /// Found for a decision; `unmapped` of them belong to no pod that is known.
    pub fn found(&self, workloads: usize, unmapped: usize) {
        self.workloads.store(workloads, Relaxed);
        self.unmapped.store(unmapped, Relaxed);
    }

    pub fn count_refused(&self, refused: Arc<AtomicU64>) {
        // Told once in a process.
        let _ = self.refused.set(refused);
    }

    pub(super) fn refused(&self) -> u64 {
        self.refused
            .get()
            .map_or(0, |refused| refused.load(Relaxed))
    }

    /// Of those that were found, so many ask for something by annotations that say nothing.
    pub fn found_malformed(&self, pods: usize) {
        self.malformed.store(pods, Relaxed);
    }

    pub fn looked(&self) {
        self.looks.fetch_add(1, Relaxed);
    }

    /// Something could not be read, or not be decided on.
    pub fn look_failed(&self) {
        self.looks_failed.fetch_add(1, Relaxed);
    }

    pub fn heard(&self, rung: &'static str, signal: Signal) {
        let pair = (rung, signal);
        let of_pair = |slot: &&Heard| *slot.pair.get_or_init(|| pair) == pair;
        let slot = self.heard.iter().find(of_pair);
        let slot = slot.unwrap_or(&self.heard[PAIRS - 1]);
        slot.events.fetch_add(1, Relaxed);
    }

    /// `None`: there was none yet.
    pub fn last_turn(&self) -> Option<Timestamp> {
        let nanos = self.last_turn.load(Relaxed);
        (nanos != 0).then(|| Timestamp::from_nanos(nanos))
    }

    /// How long the loop's next turn is overdue; zero while it is not.
    pub fn overdue(&self, now: Timestamp) -> Duration {
        clock::between(Timestamp::from_nanos(self.due.load(Relaxed)), now)
    }

    /// Did the last look fail?
    pub fn is_blind(&self) -> bool {
        self.blind.load(Relaxed)
    }

    /// Bytes, inodes or tasks left to each signal's nearest line; negative past it.
    pub fn left(&self) -> impl Iterator<Item = (Signal, i64)> {
        let all = Signal::ALL.into_iter().zip(&self.left);
        all.map(|(signal, left)| (signal, left.load(Relaxed)))
            .filter(|(_, left)| *left != NO_LINE)
    }

    pub fn leaving(&self) -> usize {
        self.leaving.load(Relaxed)
    }

    pub fn workloads(&self) -> usize {
        self.workloads.load(Relaxed)
    }

    pub fn malformed(&self) -> usize {
        self.malformed.load(Relaxed)
    }

    pub fn unmapped(&self) -> usize {
        self.unmapped.load(Relaxed)
    }

    pub fn looks(&self) -> u64 {
        self.looks.load(Relaxed)
    }

    pub fn looks_failed(&self) -> u64 {
        self.looks_failed.load(Relaxed)
    }

    /// All pairs of which there were events, each with their number.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, Signal, u64)> {
        self.heard.iter().map_while(|slot| {
            let (rung, signal) = *slot.pair.get()?;
            Some((rung, signal, slot.events.load(Relaxed)))
        })
    }
}

fn after(now: Timestamp, by: Duration) -> i64 {
    let nanos = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
    now.as_nanos().saturating_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart_by_rung_and_signal() {
        let vitals = Vitals::new(Timestamp::from_secs(1));
        assert_eq!(vitals.events().count(), 0);
        for signal in [
            Signal::MemoryAvailable,
            Signal::PidAvailable,
            Signal::MemoryAvailable,
        ] {
            vitals.heard("a", signal);
        }
        vitals.heard("b", Signal::PidAvailable);
        let events: Vec<_> = vitals.events().collect();
        assert_eq!(
            events,
            [
                ("a", Signal::MemoryAvailable, 2),
                ("a", Signal::PidAvailable, 1),
                ("b", Signal::PidAvailable, 1)
            ]
        );
    }

    #[test]
    fn a_turn_is_overdue_only_after_the_time_that_was_promised() {
        let vitals = Vitals::new(Timestamp::from_secs(100));
        let overdue = |vitals: &Vitals, at| vitals.overdue(Timestamp::from_secs(at)).as_secs();
        assert_eq!(overdue(&vitals, 160), 0, "it may take a minute to start");
        assert_eq!(overdue(&vitals, 163), 3);
        let turned = Turned {
            wait: Duration::from_secs(10),
            ..Turned::default()
        };
        vitals.turned(Timestamp::from_secs(170), &turned);
        assert_eq!(overdue(&vitals, 180), 0);
        assert_eq!(overdue(&vitals, 181), 1);
        assert_eq!(vitals.last_turn(), Some(Timestamp::from_secs(170)));
    }
}
