//! Deciding and acting: the engine's word carried out, its victims watched until they are gone.

use super::{Agent, Removing, later};
use crate::model::{Action, Eviction, Timestamp};
use crate::policy::Input;
use crate::policy::cycle::LayoutUnknown;
use crate::ports::{Entry, Executor, Inventory, Journal, PressureSource, Removal, Wake};
use crate::sys::clock;
use std::sync::Arc;
use std::time::Duration;

/// After this a victim that still runs is reported.
const REMOVAL_LIMIT: Duration = Duration::from_secs(30);

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    /// Hands a full, fresh picture to the engine and carries out what it says.
    pub(super) fn cycle(&mut self, wake: Wake, looked: Timestamp) {
        let growth = self.source.growth();
        let snapshot = self.inventory.snapshot(&growth);
        let now = clock::now();
        for uid in std::mem::take(&mut self.pretended) {
            self.carry_out(now, wake, looked, Input::Evicted { uid });
        }
        self.next_cycle = later(now, self.settings.interval);
        let mut input = Input::Cycle(Arc::new(snapshot));
        loop {
            let reclaim = self.carry_out(now, wake, looked, input);
            if !reclaim {
                return;
            }
            // A host has no images or dead containers to free first: the reading after is this one.
            input = Input::Reclaimed(Some(Arc::new(self.inventory.snapshot(&growth).summary)));
        }
    }

    /// Hands one input to the engine and does what it says; is a node-level reclaim asked for?
    fn carry_out(&mut self, now: Timestamp, wake: Wake, looked: Timestamp, input: Input) -> bool {
        let mut reclaim = false;
        match self.decide(now, wake, input) {
            Ok(actions) => {
                for action in actions {
                    match action {
                        Action::Evict(eviction) => self.evict(wake, looked, eviction),
                        Action::NoCandidate { ranking, .. } => {
                            self.tell(Entry::NoCandidate { at: now, ranking });
                        }
                        Action::ReclaimNode { .. } => reclaim = true,
                        other => self.tell(Entry::Engine {
                            at: now,
                            action: other,
                        }),
                    }
                }
            }
            Err(e) => self.tell(Entry::LookFailed {
                reason: e.to_string(),
            }),
        }
        reclaim
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
        // The kill goes first; the record of the decision carries the time it was made at.
        let outcome = if self.settings.dry_run {
            None
        } else {
            Some(self.executor.evict(&eviction))
        };
        let dry_run = self.settings.dry_run;
        self.tell(Entry::Decision {
            id,
            decided,
            wake,
            looked,
            dry_run,
            eviction,
        });
        match outcome {
            None => self.pretended.push(uid),
            Some(Ok(report)) => {
                self.tell(Entry::Kill {
                    id,
                    uid: uid.clone(),
                    report,
                    wake,
                });
                self.removing.push(Removing {
                    id,
                    uid,
                    since: decided,
                    reported: false,
                });
            }
            Some(Err(e)) => {
                let reason = e.to_string();
                self.tell(Entry::KillFailed {
                    id,
                    uid: uid.clone(),
                    reason,
                });
                self.carry_out(clock::now(), wake, looked, Input::EvictionFailed { uid });
            }
        }
    }

    /// Looks after the victims; has one of them gone since the last time?
    pub(super) fn follow_removals(&mut self) -> bool {
        let now = clock::now();
        let before = self.removing.len();
        for mut victim in std::mem::take(&mut self.removing) {
            let after = clock::between(victim.since, now);
            match self.executor.removal(&victim.uid) {
                Removal::Gone => {
                    let uid = victim.uid.clone();
                    self.tell(Entry::Gone {
                        id: victim.id,
                        uid: victim.uid,
                        at: now,
                        after,
                    });
                    self.carry_out(now, Wake::VictimGone, now, Input::Evicted { uid });
                }
                Removal::Running => {
                    if after >= REMOVAL_LIMIT && !victim.reported {
                        victim.reported = true;
                        self.tell(Entry::StillThere {
                            id: victim.id,
                            uid: victim.uid.clone(),
                            after,
                        });
                    }
                    self.removing.push(victim);
                }
            }
        }
        self.removing.len() < before
    }
}
