//! A restart in the middle of an eviction: the victims that the last process left are followed to their end,
//! and nobody else is chosen meanwhile (user case 2).

use super::removals::{Removing, Stage};
use super::{Agent, later};
use crate::model::Span;
use crate::policy::engine::Waiting;
use crate::ports::{Entry, Executor, Inventory, Journal, PressureSource};
use crate::record::victims::{KeptVictim, VictimKeeper};
use crate::sys::clock;
use std::time::{Duration, SystemTime};

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    /// From here on `keeper` is told who is on the way out. `left` are those of the last process.
    pub fn kept_by(mut self, keeper: VictimKeeper, left: Vec<KeptVictim>) -> Self {
        self.keeper = Some(keeper);
        let now = clock::now();
        let mut longest = Duration::ZERO;
        for victim in left {
            let killed = victim.leaves_until.is_none();
            if !self.executor.take_over(&victim.uid, &victim.name, killed) {
                continue;
            }
            let grace = victim.leaves_until.map(|until| {
                let left = until.duration_since(SystemTime::now());
                left.unwrap_or(Duration::ZERO)
            });
            longest = longest.max(grace.unwrap_or(Duration::ZERO));
            let id = self.next_id;
            self.next_id += 1;
            self.tell(Entry::TakenOver {
                id,
                uid: victim.uid.clone(),
                at: now,
                grace,
            });
            self.removing.push(Removing {
                id,
                uid: victim.uid,
                name: victim.name,
                decided: now,
                stage: match grace {
                    Some(grace) => Stage::Leaving {
                        until: later(now, grace),
                    },
                    None => Stage::killed(now),
                },
            });
        }
        if !self.removing.is_empty() {
            let nanos = i64::try_from(longest.as_nanos()).unwrap_or(i64::MAX);
            self.engine.go_on_waiting(Waiting {
                victims: self.removing.iter().map(|v| v.uid.clone()).collect(),
                since: now,
                grace: Span::from_nanos(nanos),
            });
            if let Some(recorder) = &self.recorder {
                recorder.begins_with_state();
            }
        }
        self.keep_victims();
        self
    }

    /// Tells the keeper who is on the way out now.
    pub(super) fn keep_victims(&self) {
        let Some(keeper) = &self.keeper else { return };
        let now = clock::now();
        let kept = self.removing.iter().filter_map(|victim| {
            let grace = match victim.stage {
                // It is on the way nowhere.
                Stage::Refused { .. } => return None,
                Stage::Asked { grace } => Some(grace),
                Stage::Leaving { until } => Some(clock::between(now, until)),
                Stage::Killed { .. } => None,
            };
            Some(KeptVictim {
                uid: victim.uid.clone(),
                name: victim.name.clone(),
                leaves_until: grace.map(|grace| SystemTime::now() + grace),
            })
        });
        keeper.keep(kept.collect());
    }
}
