//! Victims on their way out, looked after until they are gone. Nothing here waits: a victim that takes its
//! time never keeps the loop from looking.

use super::{Agent, later};
use crate::model::{Span, Timestamp, Uid};
use crate::policy::Input;
use crate::ports::{Entry, Executor, Inventory, Journal, PressureSource, Refusal, Removal, Wake};
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
    /// Whoever was asked to end it has not answered. Then it may take so long.
    Asked { grace: Duration },
    /// That was refused, and nobody else would fare better before that time.
    Refused { until: Timestamp },
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
            // Somebody waits for the answer, or nobody does.
            Stage::Asked { grace } if grace.is_zero() => FAST_POLL,
            Stage::Asked { .. } => LEAVING_POLL,
            Stage::Refused { until } => clock::between(now, until),
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
        let (mut has_gone, mut stays) = (false, false);
        for mut victim in std::mem::take(&mut self.removing) {
            if let Stage::Refused { until } = victim.stage {
                match now >= until {
                    true => self.failed(victim.uid, now, Some(Duration::ZERO)),
                    false => self.removing.push(victim),
                }
                continue;
            }
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
                Removal::Unanswered => {
                    if let Stage::Leaving { until } = victim.stage {
                        // Of an earlier process, which may have asked in vain.
                        let grace = clock::between(now, until);
                        victim.stage = Stage::Asked { grace };
                    }
                    self.removing.push(victim);
                }
                Removal::Refused(refusal) => {
                    stays = true;
                    self.refused(victim, refusal, now);
                }
                Removal::Bypassed(reason) => {
                    let (id, uid) = (victim.id, victim.uid.clone());
                    self.tell(Entry::Bypassed { id, uid, reason });
                    self.end_grace(victim, now);
                }
            }
        }
        if has_gone {
            fault::reach(Point::VictimNotRemoved);
        }
        if has_gone || stays {
            self.keep_victims();
        }
        has_gone
    }

    fn refused(&mut self, mut victim: Removing, refusal: Refusal, now: Timestamp) {
        let (again, is_for_all) = (refusal.again, refusal.is_for_all);
        self.tell(Entry::Refused {
            id: victim.id,
            uid: victim.uid.clone(),
            refusal,
        });
        if !is_for_all {
            return self.failed(victim.uid, now, Some(again));
        }
        // The engine goes on waiting: it would only choose one after the other.
        victim.stage = Stage::Refused {
            until: later(now, again),
        };
        self.removing.push(victim);
    }

    /// `again`: for so long somebody else goes first.
    fn failed(&mut self, uid: Uid, now: Timestamp, again: Option<Duration>) {
        let span = |again: Duration| i64::try_from(again.as_nanos()).unwrap_or(i64::MAX);
        let again = again.map(|again| Span::from_nanos(span(again)));
        let failed = Input::EvictionFailed { uid, again };
        self.carry_out(now, Wake::Interval, now, failed);
    }

    fn still_running(&mut self, mut victim: Removing, now: Timestamp) {
        match &mut victim.stage {
            Stage::Asked { grace } if grace.is_zero() => return self.end_grace(victim, now),
            Stage::Asked { grace } => {
                victim.stage = Stage::Leaving {
                    until: later(now, *grace),
                };
                self.removing.push(victim);
                return self.keep_victims();
            }
            Stage::Leaving { until } if now >= *until => return self.end_grace(victim, now),
            Stage::Killed { at, told } if !*told && clock::between(*at, now) >= REMOVAL_LIMIT => {
                *told = true;
                self.tell(Entry::StillThere {
                    id: victim.id,
                    uid: victim.uid.clone(),
                    after: clock::between(victim.decided, now),
                });
            }
            Stage::Leaving { .. } | Stage::Killed { .. } | Stage::Refused { .. } => {}
        }
        self.removing.push(victim);
    }

    /// The engine's word: whoever is still there is killed now.
    pub(super) fn no_more_grace(&mut self, uids: &[Uid], now: Timestamp) {
        for mut victim in std::mem::take(&mut self.removing) {
            if !uids.contains(&victim.uid) {
                self.removing.push(victim);
                continue;
            }
            match &mut victim.stage {
                Stage::Leaving { .. } => self.end_grace(victim, now),
                Stage::Asked { .. } if self.executor.may_go_unanswered(&victim.uid) => {
                    self.end_grace(victim, now);
                }
                Stage::Asked { grace } => {
                    *grace = Duration::ZERO;
                    self.removing.push(victim);
                }
                // Whoever is chosen now need not leave by itself.
                Stage::Refused { .. } => self.failed(victim.uid, now, Some(Duration::ZERO)),
                Stage::Killed { .. } => self.removing.push(victim),
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
                self.failed(uid, now, None);
            }
        }
    }
}
