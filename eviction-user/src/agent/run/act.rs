//! Deciding and acting: the engine's word carried out.

use super::removals::{Removing, Stage};
use super::{Agent, later};
use crate::model::{Action, Eviction, ObservedPod, Protection, Timestamp, Wishes};
use crate::policy::Input;
use crate::policy::cycle::LayoutUnknown;
use crate::ports::{Begun, Entry, Executor, Inventory, Journal, PressureSource, Wake};
use crate::sys::clock;
use crate::sys::fault::{self, Point};
use std::sync::Arc;

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    /// Hands a full, fresh picture to the engine and carries out what it says.
    pub(super) fn cycle(&mut self, wake: Wake, looked: Timestamp) {
        let growth = self.source.growth();
        let snapshot = self.inventory.snapshot(&growth);
        let is_unmapped = |found: &&ObservedPod| found.pod.protection == Some(Protection::Unmapped);
        let unmapped = snapshot.pods.iter().filter(is_unmapped).count();
        self.vitals.found(snapshot.pods.len(), unmapped);
        if self.engine.config().additions.honor_annotations {
            let is_malformed = |found: &&ObservedPod| !Wishes::of(&found.pod).1.is_empty();
            let malformed = snapshot.pods.iter().filter(is_malformed).count();
            self.vitals.found_malformed(malformed);
        }
        let now = clock::now();
        for uid in std::mem::take(&mut self.pretended) {
            self.carry_out(now, wake, looked, Input::Evicted { uid });
        }
        self.next_cycle = later(now, self.settings.interval);
        self.reclaiming.judged(&snapshot.summary);
        self.carry_out(now, wake, looked, Input::Cycle(Arc::new(snapshot)));
    }

    /// Hands one input to the engine and does what it says.
    pub(super) fn carry_out(
        &mut self,
        now: Timestamp,
        wake: Wake,
        looked: Timestamp,
        input: Input,
    ) {
        let actions = match self.decide(now, wake, input) {
            Ok(actions) => actions,
            Err(e) => {
                self.vitals.look_failed();
                self.tell(Entry::LookFailed {
                    reason: e.to_string(),
                });
                return;
            }
        };
        let told = self.held_by.take();
        for action in actions {
            match action {
                Action::Held(hold) => {
                    self.held_by = Some(hold.name());
                    if told != self.held_by {
                        self.tell(Entry::Engine { at: now, action });
                    }
                }
                Action::Evict(eviction) => self.evict(wake, looked, eviction),
                Action::NoCandidate { ranking, .. } => {
                    self.tell(Entry::NoCandidate { at: now, ranking });
                }
                Action::ReclaimNode { signal, calls } => {
                    self.reclaim(now, wake, looked, signal, calls);
                }
                other => {
                    if let Action::EndGrace(uids) = &other {
                        self.no_more_grace(uids, now);
                    }
                    self.tell(Entry::Engine {
                        at: now,
                        action: other,
                    });
                }
            }
        }
    }

    fn decide(
        &mut self,
        now: Timestamp,
        wake: Wake,
        input: Input,
    ) -> Result<Vec<Action>, LayoutUnknown> {
        match &mut self.recorder {
            Some(recorder) => recorder.handle(&mut self.engine, now, wake.name(), input),
            None => self.engine.handle(now, input),
        }
    }

    pub(super) fn tell(&mut self, entry: Entry) {
        if let Some(recorder) = &mut self.recorder {
            recorder.note(&entry);
        }
        self.journal.record(entry);
    }

    fn evict(&mut self, wake: Wake, looked: Timestamp, eviction: Box<Eviction>) {
        let id = self.next_id;
        self.next_id += 1;
        let decided = clock::now();
        let uid = eviction.uid().clone();
        let name = eviction.pod.name.clone();
        let dry_run = self.settings.dry_run;
        fault::reach(Point::Decided);
        // The kill goes first; the record of the decision carries the time it was made at.
        let outcome = (!dry_run).then(|| self.executor.evict(id, &eviction));
        let processes = dry_run
            .then(|| self.executor.processes(&eviction))
            .flatten();
        self.tell_moves(true);
        self.tell(Entry::Decision {
            id,
            decided,
            wake,
            looked,
            dry_run,
            processes,
            eviction,
        });
        match outcome {
            None => self.pretended.push(uid),
            Some(Ok(begun)) => {
                let (stage, report, grace) = match begun {
                    Begun::Killed(report) => (Stage::killed(report.done), report, None),
                    Begun::Leaving(report, grace) => {
                        let until = later(report.done, grace);
                        (Stage::Leaving { until }, report, Some(grace))
                    }
                    Begun::Asked(report, grace) => (Stage::Asked { grace }, report, Some(grace)),
                };
                self.removing.push(Removing {
                    id,
                    uid: uid.clone(),
                    name,
                    decided,
                    stage,
                });
                fault::reach(Point::RecordedNotKept);
                self.keep_victims();
                self.tell(match grace {
                    Some(grace) => Entry::Asked {
                        id,
                        uid,
                        report,
                        grace,
                    },
                    None => Entry::Kill {
                        id,
                        uid,
                        report,
                        wake,
                    },
                });
            }
            Some(Err(e)) => {
                self.tell(Entry::KillFailed {
                    id,
                    uid: uid.clone(),
                    reason: e.to_string(),
                });
                let again = None;
                self.carry_out(
                    clock::now(),
                    wake,
                    looked,
                    Input::EvictionFailed { uid, again },
                );
            }
        }
    }
}
