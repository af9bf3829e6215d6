//! From what happened to the figures: one entry after the other, away from the fast thread.

use super::Health;
use super::families::{
    ASKED, BYPASSED, DONE, DRY_RUN, EVENT, FAILED, Families, Hook, IN_VAIN, KILLED, LOOK, NOT_RUN,
    Of, REFUSED, Record, Reported, Short, Since, TIMED_OUT,
};
use super::pairs::pairs_in_use;
use crate::model::{Action, Condition, Eviction, EvictionCause, Signal, Timestamp};
use crate::ports::{
    Coverage, Entry, Moved, MovedSignal, ReclaimEnd, ReclaimReport, Wake, record_id,
};
use crate::sys::clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Why a victim of an earlier process was chosen, nobody knows any more.
const UNKNOWN: &str = "unknown";

#[derive(Debug)]
pub struct Counting {
    families: Families,
    health: Arc<Health>,
    watched: Vec<Signal>,
    /// Victims whose end is still to come, by the id of their records.
    chosen: BTreeMap<u64, Chosen>,
    /// What tells of signals that have moved.
    moved: BTreeMap<Signal, &'static str>,
}

/// What the records of the victim's end do not repeat.
#[derive(Debug, Clone, Copy)]
struct Chosen {
    signal: &'static str,
    looked: Timestamp,
    /// It was asked to leave first: how long that took is no speed of ours.
    asked: bool,
}

impl Counting {
    pub(super) fn new(families: Families, health: Arc<Health>, watched: Vec<Signal>) -> Self {
        Self {
            families,
            health,
            watched,
            chosen: BTreeMap::new(),
            moved: BTreeMap::new(),
        }
    }

    pub fn take(&mut self, entry: &Entry) {
        let families = &self.families;
        match entry {
            Entry::Started { how, .. } => {
                families.started(how, &pairs_in_use(how, &self.watched));
                self.health.has_started(how);
            }
            Entry::Event { event, received } => {
                families.notify.observe(seconds(event.time, *received));
            }
            Entry::Decision {
                id,
                decided,
                looked,
                dry_run,
                eviction,
                ..
            } => self.decided(*id, eviction, *looked, *decided, *dry_run),
            Entry::Asked { id, .. } => {
                self.ended(*id, ASKED);
                if let Some(chosen) = self.chosen.get_mut(id) {
                    chosen.asked = true;
                }
            }
            Entry::Refused { id, .. } => {
                self.ended(*id, REFUSED);
                self.chosen.remove(id);
            }
            Entry::Bypassed { id, .. } => self.ended(*id, BYPASSED),
            Entry::Kill {
                id, report, wake, ..
            } => {
                self.ended(*id, KILLED);
                self.killed(*id, *wake, report.done);
            }
            Entry::KillFailed { id, .. } => {
                self.ended(*id, FAILED);
                self.chosen.remove(id);
            }
            Entry::Gone { id, .. } => {
                self.chosen.remove(id);
            }
            Entry::NoCandidate { ranking, .. } => {
                let resource = ranking.resource.name();
                let short = Short { resource };
                families.no_candidate.get_or_create(&short).inc();
            }
            Entry::Reclaim { order, .. } if order.dry_run => self.reclaim(order.signal, DRY_RUN),
            Entry::Reclaimed {
                signal,
                report,
                rest,
                dry_run: false,
                ..
            } => {
                self.reclaim(*signal, reclaimed(report, *rest));
                families.removed.add(report.removed.unwrap_or_default());
            }
            Entry::Engine {
                action: Action::Conditions(hold),
                ..
            } => self.conditions(hold),
            Entry::HookSilent { hook, .. } => {
                let (signal, rung) = (hook.signal.name(), hook.rung);
                let hook = Hook { signal, rung };
                families.hook_silent.get_or_create(&hook).inc();
            }
            Entry::Moved {
                moved, coverage, ..
            } => self.moved(moved, coverage),
            Entry::EventsLost { count } => drop(families.events_lost.inc_by(*count)),
            Entry::EventLate { .. } => drop(families.events_late.inc()),
            Entry::CountsForgotten { count } => drop(families.counts_forgotten.inc_by(*count)),
            Entry::RecordsDropped { count } => drop(families.records_dropped.inc_by(*count)),
            Entry::OomKill { .. } => drop(families.oom_kills.inc()),
            Entry::OomMismatch { .. } => drop(families.oom_mismatches.inc()),
            // Looks, and those that failed, are in the vitals: here the same reason comes once.
            Entry::Look { .. } | Entry::LookFailed { .. } => {}
            // The reclaim's end is counted (in a dry run that it would be), the victim's second warning is not, and of one taken
            // over its end will be.
            Entry::Reclaim { .. } | Entry::Reclaimed { .. } => {}
            Entry::StillThere { .. } | Entry::TakenOver { .. } => {}
            Entry::Engine { .. } => {}
        }
    }

    fn moved(&mut self, moved: &Moved, coverage: &[Coverage]) {
        for (MovedSignal { signal, .. }, coverage) in moved.signals.iter().zip(coverage) {
            let told_by = match coverage {
                Coverage::Hook(rung) => rung,
                Coverage::Timer(_) => "timer",
            };
            let labels = |rung| Hook {
                signal: signal.name(),
                rung,
            };
            if let Some(before) = self.moved.insert(*signal, told_by) {
                self.families.moved.remove(&labels(before));
            }
            self.families.moved.get_or_create(&labels(told_by)).set(1);
        }
    }

    fn decided(
        &mut self,
        id: u64,
        eviction: &Eviction,
        looked: Timestamp,
        decided: Timestamp,
        dry_run: bool,
    ) {
        self.families.decision.observe(seconds(looked, decided));
        let read = match &eviction.cause {
            EvictionCause::Pressure { observed, .. } => observed.and_then(|o| o.time),
            EvictionCause::LocalStorage(_) => None,
        };
        let age = seconds(read.unwrap_or(looked), decided);
        self.families.sample_age.observe(age);
        let chosen = Chosen {
            signal: eviction.cause.metric_label(),
            looked,
            asked: false,
        };
        self.chosen.insert(id, chosen);
        if dry_run {
            self.ended(id, DRY_RUN);
            self.chosen.remove(&id);
        }
    }

    fn ended(&self, id: u64, outcome: &'static str) {
        let signal = self.chosen.get(&id).map_or(UNKNOWN, |c| c.signal);
        let of = Of { signal, outcome };
        self.families.evictions.get_or_create(&of).inc();
    }

    fn killed(&self, id: u64, wake: Wake, done: Timestamp) {
        let Some(chosen) = self.chosen.get(&id).filter(|chosen| !chosen.asked) else {
            return;
        };
        let (since, began) = match wake {
            Wake::Event(event) => (EVENT, event.time),
            _ => (LOOK, chosen.looked),
        };
        let record = Record {
            record_id: record_id(id),
        };
        let at = SystemTime::now() - clock::elapsed_since(done);
        let kill = self.families.kill.get_or_create(&Since { since });
        kill.observe(seconds(began, done), Some(record), Some(at));
    }

    fn conditions(&self, hold: &[Condition]) {
        for one in Condition::ALL {
            let condition = one.name();
            let gauge = self
                .families
                .condition
                .get_or_create(&Reported { condition });
            gauge.set(i64::from(hold.contains(&one)));
        }
    }

    fn reclaim(&self, signal: Signal, outcome: &'static str) {
        let signal = signal.name();
        let of = Of { signal, outcome };
        self.families.reclaims.get_or_create(&of).inc();
    }
}

/// `rest`: it is not tried again for a while, because nothing came of it.
fn reclaimed(report: &ReclaimReport, rest: Option<Duration>) -> &'static str {
    match &report.end {
        end if end.is_good() && rest.is_some() => IN_VAIN,
        ReclaimEnd::Exited(0) | ReclaimEnd::Done => DONE,
        ReclaimEnd::Exited(_) | ReclaimEnd::Signalled(_) | ReclaimEnd::Refused(_) => FAILED,
        ReclaimEnd::TimedOut(_) | ReclaimEnd::Silent(_) => TIMED_OUT,
        ReclaimEnd::NotRun(_) => NOT_RUN,
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    clock::between(from, to).as_secs_f64()
}
