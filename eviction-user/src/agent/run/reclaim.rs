//! Freeing node-level resources before anybody is evicted: begun here, done elsewhere, and judged by a
//! second reading. While it is under way the loop goes on looking, so memory cannot run out behind its back.

use super::{Agent, later};
use crate::model::{FsStats, ReclaimCall, Signal, Summary, Timestamp};
use crate::policy::Input;
use crate::ports::{
    Entry, Executor, Freed, Inventory, Journal, PressureSource, ReclaimBy, ReclaimOrder,
    ReclaimReport, Wake,
};
use crate::sys::clock;
use std::sync::Arc;
use std::time::Duration;

/// A reclaim that failed or freed nothing is not tried again for so long: evictions would wait for it
/// again and again (user case 38).
const REST: Duration = Duration::from_secs(60);
/// How often its end is asked for.
const POLL: Duration = Duration::from_millis(20);

/// What is known about reclaims.
#[derive(Debug, Default)]
pub(super) struct Reclaiming {
    /// The reading that the last cycle was decided on.
    first: Arc<Summary>,
    running: Option<Signal>,
    rests_until: Option<Timestamp>,
}

impl Reclaiming {
    pub(super) fn judged(&mut self, summary: &Summary) {
        // While one is under way its effect is measured from where it began.
        if self.running.is_none() {
            self.first = Arc::new(summary.clone());
        }
    }

    pub(super) fn due_in(&self) -> Option<Duration> {
        self.running.map(|_| POLL)
    }
}

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    pub(super) fn reclaim(
        &mut self,
        now: Timestamp,
        wake: Wake,
        looked: Timestamp,
        signal: Signal,
        calls: &'static [ReclaimCall],
    ) {
        if self.reclaiming.running.is_some() {
            // The one under way answers.
            return;
        }
        let dry_run = self.settings.dry_run;
        let rests = self.reclaiming.rests_until.is_some_and(|until| now < until);
        if let Some(by) = self.executor.reclaims_by().filter(|_| !rests) {
            let order = ReclaimOrder {
                signal,
                calls,
                dry_run,
            };
            self.tell(Entry::Reclaim { at: now, order, by });
            // Only a runtime can be asked what it would do.
            if !dry_run || by == ReclaimBy::Runtime {
                self.executor.reclaim(order);
                self.reclaiming.running = Some(signal);
                return;
            }
        }
        // Nothing is freed, so the second reading is the first one.
        let second = Arc::clone(&self.reclaiming.first);
        self.carry_out(now, wake, looked, Input::Reclaimed(Some(second)));
    }

    /// Hears how the reclaim went. `second`: the reading taken since; `None`: that failed.
    pub(super) fn reclaimed(
        &mut self,
        report: ReclaimReport,
        second: Option<Summary>,
        taken: Timestamp,
    ) {
        let Some(signal) = self.reclaiming.running.take() else {
            return;
        };
        let now = clock::now();
        let freed = second
            .as_ref()
            .and_then(|second| freed(signal, &self.reclaiming.first, second));
        let dry_run = self.settings.dry_run;
        let in_vain =
            dry_run || !report.end.is_good() || freed.is_some_and(|freed| !freed.helps(signal));
        let rest = in_vain.then_some(REST);
        self.reclaiming.rests_until = rest.map(|rest| later(now, rest));
        self.tell(Entry::Reclaimed {
            at: now,
            signal,
            dry_run,
            report,
            freed,
            rest,
        });
        let input = Input::Reclaimed(second.map(Arc::new));
        self.carry_out(now, Wake::Reclaimed, taken, input);
    }
}

impl Freed {
    fn helps(self, signal: Signal) -> bool {
        match signal {
            Signal::NodeFsInodesFree
            | Signal::ImageFsInodesFree
            | Signal::ContainerFsInodesFree => self.inodes > 0,
            _ => self.bytes > 0,
        }
    }
}

fn freed(signal: Signal, first: &Summary, second: &Summary) -> Option<Freed> {
    let (before, after) = (file_system(signal, first)?, file_system(signal, second)?);
    let more = |before: Option<u64>, after: Option<u64>| match (before, after) {
        (Some(before), Some(after)) => after.cast_signed().saturating_sub(before.cast_signed()),
        _ => 0,
    };
    Some(Freed {
        bytes: more(before.available, after.available),
        inodes: more(before.inodes_free, after.inodes_free),
    })
}

fn file_system(signal: Signal, summary: &Summary) -> Option<&FsStats> {
    match signal {
        Signal::NodeFsAvailable | Signal::NodeFsInodesFree => summary.nodefs.as_ref(),
        Signal::ImageFsAvailable | Signal::ImageFsInodesFree => summary.imagefs.as_ref(),
        Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree => {
            summary.containerfs.as_ref()
        }
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => None,
    }
}
