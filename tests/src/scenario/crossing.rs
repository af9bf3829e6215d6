//! From the crossing of a line to the last thing that a hog took: what an evictor is measured by, whoever it is.

use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_user::sys::cgroup::GroupMemoryReader;
use serde::{Deserialize, Serialize};

use super::wait_until;
use crate::load::{ProgressPage, now_ns};

const MIB: u64 = 1 << 20;
/// Nobody takes longer to find the hog.
const PATIENCE: Duration = Duration::from_secs(60);
/// A hog that has taken nothing for so long is dead, or has all that it wants.
const STILL: Duration = Duration::from_secs(2);
/// So far from the line the counter is read without a rest.
const SHORTLY_MIB: u64 = 48;
/// What the kernel charges to it beside what it asks for: page tables, and a stock for each CPU.
const NOT_ITS_OWN: u64 = 2 * MIB;
const A_MOMENT: Duration = Duration::from_millis(1);

/// `None`: the hog was not stopped before it had all that it wanted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Stopped {
    pub crossing_to_last_allocation_us: Option<u64>,
    pub overshoot_bytes: Option<u64>,
}

/// Watches a hog that wants `total` until it takes no more. `group`: of all pods, which have crossed the line when they use so much.
pub fn watch(
    page: &ProgressPage,
    total: u64,
    group: &GroupMemoryReader,
    line: u64,
) -> Result<Stopped> {
    let done = || page.done.load(Ordering::Acquire);
    let first = wait_until(PATIENCE, || (done() > 0).then_some(()));
    first.context("the hog does not begin")?;
    let crossing = crossing(group, line, page)?;
    let ended = wait_until(PATIENCE, || has_ended(page).then_some(()));
    ended.context("the hog takes more and more")?;
    let was_stopped = done() < total;
    let last = page.last_ns.load(Ordering::Acquire);
    Ok(Stopped {
        crossing_to_last_allocation_us: was_stopped
            .then(|| last.saturating_sub(crossing.at_ns) / 1_000),
        overshoot_bytes: was_stopped.then(|| done().saturating_sub(crossing.done)),
    })
}

/// The last moment at which the line was not crossed yet.
#[derive(Debug, Clone, Copy)]
struct Crossing {
    at_ns: u64,
    /// What the hog had by then.
    done: u64,
    /// What was left to the line.
    left: u64,
}

/// Reads the pods' counter as fast as it can from shortly before the line on. The last reading before the line is what counts:
/// an evictor that runs at once takes the CPU from us, and the next one comes when all is over.
fn crossing(group: &GroupMemoryReader, line: u64, page: &ProgressPage) -> Result<Crossing> {
    let left = |used: u64| line.saturating_sub(used);
    while left(group.read()?.working_set()) > SHORTLY_MIB * MIB {
        ensure!(!has_ended(page), "the hog has ended far from the line");
        std::thread::sleep(A_MOMENT);
    }
    let read = group.read()?;
    // Nobody reads or writes files meanwhile.
    let inactive = read.usage - read.working_set();
    let mut seen = Seen::default();
    loop {
        let (at_ns, done) = (now_ns(), page.done.load(Ordering::Acquire));
        // Read after that: if it shows room, there was room then.
        let left = left(group.usage()?.saturating_sub(inactive));
        if left == 0 {
            return seen
                .latest
                .context("the hog had crossed the line before it was watched");
        }
        seen.add(Crossing { at_ns, done, left });
        if has_ended(page) {
            return seen.before_the_end(page.done.load(Ordering::Acquire));
        }
    }
}

/// Readings with room left to the line.
#[derive(Default)]
struct Seen {
    /// The last one.
    latest: Option<Crossing>,
    /// The last one at which the line was not crossed for certain, whatever is charged beside what the hog asks for.
    certain: Option<Crossing>,
    /// The same, before the hog last took something.
    earlier: Option<Crossing>,
}

impl Seen {
    fn add(&mut self, now: Crossing) {
        if self.latest.is_some_and(|latest| latest.done < now.done) {
            self.earlier = self.certain;
        }
        self.latest = Some(now);
        if now.left > NOT_ITS_OWN {
            self.certain = Some(now);
        }
    }

    /// Its memory was free again before the counter was read once more: what it took last has crossed the line. Where in between
    /// nobody has seen, so it counts as crossed from the last reading on that is certain: a time and an overshoot too long, by what
    /// [`NOT_ITS_OWN`] takes to fill, rather than too short.
    fn before_the_end(&self, done: u64) -> Result<Crossing> {
        let mut last = [self.certain, self.earlier].into_iter().flatten();
        let last = last.find(|reading| reading.done < done);
        let last = last.context("the hog took nothing while it was watched")?;
        let taken = done - last.done;
        ensure!(
            last.left <= taken + NOT_ITS_OWN,
            "the hog has ended before the line: {} bytes were left to it, it took {taken} more",
            last.left
        );
        Ok(last)
    }
}

fn has_ended(page: &ProgressPage) -> bool {
    let last = page.last_ns.load(Ordering::Acquire);
    now_ns().saturating_sub(last) > STILL.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(readings: &[(u64, u64)]) -> Seen {
        let mut seen = Seen::default();
        for (at_ns, &(done, left)) in (0..).zip(readings) {
            seen.add(Crossing { at_ns, done, left });
        }
        seen
    }

    #[test]
    fn a_hog_that_was_gone_at_once_has_crossed_by_what_it_took_last() {
        // Two readings after its end, when its memory was free already.
        let seen = seen(&[
            (8, 6 * MIB),
            (9, 5 * MIB),
            (4 * MIB, 90 * MIB),
            (4 * MIB, 95 * MIB),
        ]);
        let crossing = seen.before_the_end(4 * MIB).unwrap();
        assert_eq!((crossing.at_ns, crossing.done), (1, 9));
        assert_eq!(seen.latest.unwrap().at_ns, 3);
    }

    #[test]
    fn readings_too_near_to_the_line_make_no_evictor_look_quicker_than_it_is() {
        let seen = seen(&[
            (8, 3 * MIB),
            (MIB, 2 * MIB),
            (2 * MIB, MIB),
            (3 * MIB, 90 * MIB),
        ]);
        let crossing = seen.before_the_end(3 * MIB).unwrap();
        assert_eq!((crossing.at_ns, crossing.done), (0, 8));
    }

    #[test]
    fn a_hog_that_ended_with_room_left_has_crossed_nothing() {
        let seen = seen(&[(8, 60 * MIB), (9, 50 * MIB)]);
        let error = seen.before_the_end(4 * MIB).unwrap_err().to_string();
        assert!(error.contains("ended before the line"), "{error}");
        assert!(seen.before_the_end(8).is_err(), "nothing was taken");
    }
}
