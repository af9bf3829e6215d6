//! Victims on their way out, looked after until they are gone. Nothing here waits: a victim that takes its
//! time never keeps the loop from looking.

use super::Agent;
use crate::model::{Timestamp, Uid};
use crate::policy::Input;
use crate::ports::{Entry, Executor, Inventory, Journal, PressureSource, Removal, Wake};
use crate::sys::clock;
use crate::sys::fault::{self, Point};
use std::time::Duration;

/// After this a victim that still runs is reported.
const REMOVAL_LIMIT: Duration = Duration::from_secs(30);
/// How often a victim is looked at: at first as fast as tokio's timer goes, later less often.
const FAST_POLL: Duration = Duration::from_millis(1);
const SLOW_POLL: Duration = Duration::from_millis(10);
const FAST_POLL_FOR: Duration = Duration::from_millis(200);
/// One that leaves by itself is in no hurry.
const LEAVING_POLL: Duration = Duration::from_millis(50);

/// A victim on its way out.
pub(super) struct Removing {
    pub(super) id: u64,
    pub(super) uid: Uid,
    pub(super) name: String,
    pub(super) decided: Timestamp,
    pub(super) stage: Stage,
}

pub(super) enum Stage {
    /// Asked to end, and killed if it has not by then.
    Leaving { until: Timestamp },
    /// `told`: that it still runs has been reported.
    Killed { at: Timestamp, told: bool },
}

impl Stage {
    pub(super) fn killed(at: Timestamp) -> Self {
        Self::Killed { at, told: false }
    }
}

impl Removing {
    /// How long until it has to be looked at again.
    pub(super) fn due_in(&self, now: Timestamp) -> Duration {
        match self.stage {
            Stage::Leaving { until } => clock::between(now, until).min(LEAVING_POLL),
            Stage::Killed { at, .. } if clock::between(at, now) < FAST_POLL_FOR => FAST_POLL,
            Stage::Killed { .. } => SLOW_POLL,
        }
    }
}

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    /// Looks after the victims; has one of them gone since the last time?
    pub(super) fn follow_removals(&mut self) -> bool {
        let now = clock::now();
        let mut has_gone = false;
        for victim in std::mem::take(&mut self.removing) {
            match self.executor.removal(&victim.uid) {
                Removal::Gone => {
                    fault::reach(Point::RecordNotRemoved);
                    fault::reach(Point::RecordRemoved);
                    has_gone = true;
                    self.tell(Entry::Gone {
                        id: victim.id,
                        uid: victim.uid.clone(),
                        at: now,
                        after: clock::between(victim.decided, now),
                    });
                    let uid = victim.uid;
                    self.carry_out(now, Wake::VictimGone, now, Input::Evicted { uid });
                }
                Removal::Running => self.still_running(victim, now),
            }
        }
        if has_gone {
            fault::reach(Point::VictimNotRemoved);
            self.keep_victims();
        }
        has_gone
    }

    fn still_running(&mut self, mut victim: Removing, now: Timestamp) {
        match &mut victim.stage {
            Stage::Leaving { until } if now >= *until => return self.end_grace(victim, now),
            Stage::Killed { at, told } if !*told && clock::between(*at, now) >= REMOVAL_LIMIT => {
                *told = true;
                self.tell(Entry::StillThere {
                    id: victim.id,
                    uid: victim.uid.clone(),
                    after: clock::between(victim.decided, now),
                });
            }
            Stage::Leaving { .. } | Stage::Killed { .. } => {}
        }
        self.removing.push(victim);
    }

    /// The engine's word: whoever is still there is killed now.
    pub(super) fn no_more_grace(&mut self, uids: &[Uid], now: Timestamp) {
        for mut victim in std::mem::take(&mut self.removing) {
            match &mut victim.stage {
                Stage::Leaving { .. } if uids.contains(&victim.uid) => self.end_grace(victim, now),
                Stage::Leaving { .. } | Stage::Killed { .. } => self.removing.push(victim),
            }
        }
    }

    fn end_grace(&mut self, mut victim: Removing, now: Timestamp) {
        let (id, uid) = (victim.id, victim.uid.clone());
        match self.executor.end_grace(&uid) {
            Ok(report) => {
                victim.stage = Stage::killed(report.done);
                self.removing.push(victim);
                self.keep_victims();
                // No event is to be credited with it: the decision is as old as the grace.
                let wake = Wake::Interval;
                self.tell(Entry::Kill {
                    id,
                    uid,
                    report,
                    wake,
                });
            }
            Err(e) => {
                let reason = e.to_string();
                self.tell(Entry::KillFailed {
                    id,
                    uid: uid.clone(),
                    reason,
                });
                self.carry_out(now, Wake::Interval, now, Input::EvictionFailed { uid });
            }
        }
    }
}
