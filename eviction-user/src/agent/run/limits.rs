//! Workloads with limits of their own on what they hold on disks: compared when the kernel says that somebody may have reached
//! one, and now and then.

use super::Agent;
use crate::model::{Resource, Signal, Timestamp};
use crate::ports::{Distance, Executor, Inventory, Journal, PressureSource, Wake};
use crate::sys::clock::{self, later};
use std::time::Duration;

/// What is known of them in this turn. What was known in the one before is not armed again: what has been used up since would
/// count for nothing.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limits {
    Unknown,
    Compared {
        /// Bytes to the nearest one, whoever uses them up.
        left: Option<u64>,
        again: Timestamp,
    },
}

impl Limits {
    /// The signal's line, or the nearest limit if that comes first.
    pub(super) fn nearer(self, signal: Signal, line: Option<Distance>) -> Option<Distance> {
        let Self::Compared {
            left: Some(left), ..
        } = self
        else {
            return line;
        };
        if signal.resource() != Resource::EphemeralStorage {
            return line;
        }
        let limit = Distance {
            left: i64::try_from(left).unwrap_or(i64::MAX),
            level: None,
        };
        Some(line.filter(|line| line.left <= limit.left).unwrap_or(limit))
    }
}

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    /// Does somebody newly exceed a limit? Not asked on the way from an event to its kill: reading the counters takes time.
    pub(super) fn compare_limits(&mut self, wake: Wake, newly_met: bool) -> bool {
        self.limits = Limits::Unknown;
        let is_of_a_disk = |signal: Signal| {
            matches!(
                signal.resource(),
                Resource::EphemeralStorage | Resource::Inodes
            )
        };
        let is_urgent =
            newly_met || matches!(wake, Wake::Event(event) if !is_of_a_disk(event.signal));
        if is_urgent || self.inventory.limits_due() != Some(Duration::ZERO) {
            return false;
        }
        let growth = self.source.growth();
        let look = self.inventory.check_limits(&growth);
        self.limits = Limits::Compared {
            left: look.left,
            again: later(clock::now(), look.again),
        };
        look.newly_broken
    }

    /// When to compare again, if that is done at all.
    pub(super) fn limits_due(&self, now: Timestamp) -> Option<Duration> {
        let due = self.inventory.limits_due()?;
        Some(match self.limits {
            Limits::Unknown => due,
            Limits::Compared { again, .. } => due.max(clock::between(now, again)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_of_line_and_limit_is_armed_and_a_limit_only_for_bytes_of_a_disk() {
        let line = |left| {
            Some(Distance {
                left,
                level: Some(7),
            })
        };
        let limit = |left| Limits::Compared {
            left,
            again: Timestamp::from_nanos(0),
        };
        let bytes = Signal::NodeFsAvailable;
        let left = |limits: Limits, signal, line: Option<Distance>| {
            limits.nearer(signal, line).map(|distance| distance.left)
        };
        for (limits, line, expected) in [
            (limit(Some(5)), line(9), Some(5)),
            (limit(Some(9)), line(5), Some(5)),
            (limit(Some(5)), None, Some(5)),
            (limit(None), line(9), Some(9)),
            (Limits::Unknown, line(9), Some(9)),
            (Limits::Unknown, None, None),
        ] {
            assert_eq!(left(limits, bytes, line), expected, "{limits:?} {line:?}");
        }
        for other in [Signal::MemoryAvailable, Signal::NodeFsInodesFree] {
            assert_eq!(limit(Some(5)).nearer(other, line(9)), line(9));
            assert_eq!(limit(Some(5)).nearer(other, None), None);
        }
    }
}
