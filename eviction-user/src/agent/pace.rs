//! When to look although no event came: the safety net below the events, and all there is without eBPF.

use crate::model::{Resource, Signal};
use std::time::Duration;

const MIB: i64 = 1 << 20;

/// With events: bounds how late a look can be for what charging cannot see (kernel memory that is not
/// accounted, activation of file pages, tasks in the root cgroup).
const HEARTBEAT: Duration = Duration::from_secs(1);
const NEAR_HEARTBEAT: Duration = Duration::from_millis(100);
const NEAR: i64 = 64 * MIB;

/// Without events: look again when the distance could have been half used up.
const LONGEST: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(5);
/// What is assumed before anything was measured, a second.
const fn assumed_rate(resource: Resource) -> i64 {
    match resource {
        Resource::Memory | Resource::EphemeralStorage => 256 * MIB,
        Resource::Inodes | Resource::Pids => 20_000,
    }
}

/// Remembers how fast each distance shrank lately.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    last: [Option<(i64, Duration)>; Signal::ALL.len()],
    rate: [i64; Signal::ALL.len()],
}

impl Pace {
    /// Takes in a distance found `at` (time since any fixed start).
    pub fn observe(&mut self, signal: Signal, left: i64, at: Duration) {
        let slot = signal.index();
        if let Some((before, then)) = self.last[slot]
            && at > then
        {
            let used = before.saturating_sub(left).max(0);
            let nanos = i64::try_from((at - then).as_nanos())
                .unwrap_or(i64::MAX)
                .max(1);
            let now = used.saturating_mul(1_000_000_000) / nanos;
            // Rises at once, falls slowly: a burst is often followed by the next.
            self.rate[slot] = now.max(self.rate[slot] - self.rate[slot] / 8);
        }
        self.last[slot] = Some((left, at));
    }

    /// The figure is about something else from here on.
    pub fn forget(&mut self, signal: Signal) {
        self.last[signal.index()] = None;
        self.rate[signal.index()] = 0;
    }

    /// How long to wait for the next look at a line that is `left` away; `covered`: events come too.
    pub fn wait(&self, signal: Signal, left: i64, covered: bool) -> Duration {
        let resource = signal.resource();
        if covered {
            return if resource == Resource::Memory && left < NEAR {
                NEAR_HEARTBEAT
            } else {
                HEARTBEAT
            };
        }
        let rate = self.rate[signal.index()]
            .saturating_mul(2)
            .max(assumed_rate(resource));
        let nanos =
            (i128::from(left.max(0)) * 500_000_000 / i128::from(rate)).min(i128::from(u32::MAX));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0)).clamp(SHORTEST, LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    #[test]
    fn with_events_the_heartbeat_is_a_second_and_shorter_when_memory_is_near() {
        let pace = Pace::default();
        assert_eq!(pace.wait(Signal::MemoryAvailable, 1 << 40, true), HEARTBEAT);
        assert_eq!(
            pace.wait(Signal::MemoryAvailable, 63 * MIB, true),
            NEAR_HEARTBEAT
        );
        assert_eq!(pace.wait(Signal::NodeFsInodesFree, 10, true), HEARTBEAT);
    }

    #[test]
    fn without_events_the_wait_shrinks_with_the_distance_down_to_a_bound() {
        let pace = Pace::default();
        assert_eq!(
            pace.wait(Signal::AllocatableMemoryAvailable, 1 << 40, false),
            LONGEST
        );
        assert_eq!(
            pace.wait(Signal::AllocatableMemoryAvailable, 64 * MIB, false),
            Duration::from_millis(125)
        );
        assert_eq!(
            pace.wait(Signal::AllocatableMemoryAvailable, 0, false),
            SHORTEST
        );
        assert_eq!(
            pace.wait(Signal::NodeFsInodesFree, 2_000, false),
            Duration::from_millis(50)
        );
    }

    #[test]
    fn a_faster_hog_is_looked_at_more_often_and_for_a_while_after() {
        let mut pace = Pace::default();
        pace.observe(Signal::AllocatableMemoryAvailable, 4096 * MIB, seconds(0.0));
        pace.observe(Signal::AllocatableMemoryAvailable, 3072 * MIB, seconds(1.0));
        let fast = pace.wait(Signal::AllocatableMemoryAvailable, 512 * MIB, false);
        assert_eq!(
            fast,
            Duration::from_millis(125),
            "1 GiB/s measured: half of 512 MiB at twice that"
        );
        pace.observe(Signal::AllocatableMemoryAvailable, 3072 * MIB, seconds(2.0));
        assert!(
            pace.wait(Signal::AllocatableMemoryAvailable, 512 * MIB, false)
                < Duration::from_millis(150),
            "not forgotten at once"
        );
    }
}
