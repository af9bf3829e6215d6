//! When to look although no event came: the safety net below the events, and all there is without eBPF.

use crate::ports::Watch;
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
/// What is assumed before anything was measured: bytes and inodes a second.
const ASSUMED_MEMORY_RATE: i64 = 256 * MIB;
const ASSUMED_INODE_RATE: i64 = 20_000;

/// Remembers how fast each distance shrank lately.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    last: [Option<(i64, Duration)>; 3],
    rate: [i64; 3],
}

impl Pace {
    /// Takes in a distance found `at` (time since any fixed start).
    pub fn observe(&mut self, watch: Watch, left: i64, at: Duration) {
        let slot = watch as usize;
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

    /// How long to wait for the next look at a line that is `left` away; `covered`: events come too.
    pub fn wait(&self, watch: Watch, left: i64, covered: bool) -> Duration {
        if covered {
            return if watch.is_memory() && left < NEAR {
                NEAR_HEARTBEAT
            } else {
                HEARTBEAT
            };
        }
        let assumed = if watch.is_memory() {
            ASSUMED_MEMORY_RATE
        } else {
            ASSUMED_INODE_RATE
        };
        let rate = self.rate[watch as usize].saturating_mul(2).max(assumed);
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
        assert_eq!(pace.wait(Watch::NodeMemory, 1 << 40, true), HEARTBEAT);
        assert_eq!(pace.wait(Watch::NodeMemory, 63 * MIB, true), NEAR_HEARTBEAT);
        assert_eq!(pace.wait(Watch::Inodes, 10, true), HEARTBEAT);
    }

    #[test]
    fn without_events_the_wait_shrinks_with_the_distance_down_to_a_bound() {
        let pace = Pace::default();
        assert_eq!(pace.wait(Watch::GroupMemory, 1 << 40, false), LONGEST);
        assert_eq!(
            pace.wait(Watch::GroupMemory, 64 * MIB, false),
            Duration::from_millis(125)
        );
        assert_eq!(pace.wait(Watch::GroupMemory, 0, false), SHORTEST);
        assert_eq!(
            pace.wait(Watch::Inodes, 2_000, false),
            Duration::from_millis(50)
        );
    }

    #[test]
    fn a_faster_hog_is_looked_at_more_often_and_for_a_while_after() {
        let mut pace = Pace::default();
        pace.observe(Watch::GroupMemory, 4096 * MIB, seconds(0.0));
        pace.observe(Watch::GroupMemory, 3072 * MIB, seconds(1.0));
        let fast = pace.wait(Watch::GroupMemory, 512 * MIB, false);
        assert_eq!(
            fast,
            Duration::from_millis(125),
            "1 GiB/s measured: half of 512 MiB at twice that"
        );
        pace.observe(Watch::GroupMemory, 3072 * MIB, seconds(2.0));
        assert!(
            pace.wait(Watch::GroupMemory, 512 * MIB, false) < Duration::from_millis(150),
            "not forgotten at once"
        );
    }
}
