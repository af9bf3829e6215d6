//! From a look, or the answer to a reclaim, to a decision of the cycle and on to actions.

use std::sync::Arc;

use super::super::additions::exclusion::Exclusions;
use super::super::cycle::{self, Decision, LayoutUnknown};
use super::super::thresholds;
use super::Engine;
use crate::model::{Action, Resource, Snapshot, Summary, Timestamp};

impl Engine {
    pub(super) fn look(
        &mut self,
        now: Timestamp,
        snapshot: &Arc<Snapshot>,
        actions: &mut Vec<Action>,
    ) -> Result<(), LayoutUnknown> {
        // The kubelet's loop stands still while it waits or reclaims. So do we, but for one thing:
        // image clean-up takes long, and memory or PIDs must not run out behind its back.
        // And a victim that is to leave by itself need not be let off in peace for that.
        if self.waiting.is_some() || (self.reclaiming.is_some() && !self.is_urgent(snapshot)) {
            actions.extend(self.end_grace(now, &snapshot.summary));
            return Ok(());
        }
        self.reclaiming = None;
        self.look_due = None;
        self.held_until = None;
        self.backed_off.retain(|_, until| *until > now);
        let is_short = self.is_short(&snapshot.summary, |_| true);
        self.refused.forget(now, is_short);

        let reported = self.state.conditions().to_vec();
        let exclusions = Exclusions {
            additions: &self.config.additions,
            backed_off: &self.backed_off,
            refused: &self.refused,
        };
        let decision = cycle::run(
            &mut self.state,
            &self.config.settings,
            &exclusions,
            now,
            snapshot,
        )?;
        if self.state.conditions() != reported {
            actions.push(Action::Conditions(self.state.conditions().to_vec()));
        }
        self.act(now, decision, &snapshot.summary, actions);
        // Both kinds may be met at once, and memory goes before disk whichever kind it is.
        actions.extend(self.end_grace(now, &snapshot.summary));
        Ok(())
    }

    /// Whether a resource without node-level reclaim is short.
    fn is_urgent(&self, snapshot: &Snapshot) -> bool {
        self.is_short(&snapshot.summary, |resource| {
            matches!(resource, Resource::Memory | Resource::Pids)
        })
    }

    /// Whether a hard threshold of one of these resources is met.
    pub(super) fn is_short(&self, summary: &Summary, of: impl Fn(Resource) -> bool) -> bool {
        let observations = self.config.settings.observe(summary);
        self.state.thresholds().iter().any(|threshold| {
            of(threshold.signal.resource())
                && threshold.is_hard()
                && observations
                    .get(threshold.signal)
                    .is_some_and(|observed| thresholds::is_met(threshold, observed))
        })
    }

    pub(super) fn reclaimed(
        &mut self,
        now: Timestamp,
        second: Option<&Summary>,
        actions: &mut Vec<Action>,
    ) {
        // An answer nobody waits for any more: a later look took over.
        let Some(pressure) = self.reclaiming.take() else {
            return;
        };
        let decision = cycle::after_reclaim(
            &self.state,
            &self.config.settings,
            &self.exclusions(),
            &pressure,
            second,
        );
        // The node's event was sent with the request to reclaim.
        let mut late = Vec::new();
        self.act(
            now,
            decision,
            second.unwrap_or(&Summary::default()),
            &mut late,
        );
        actions.extend(
            late.into_iter()
                .filter(|action| !matches!(action, Action::NodeEvent(_))),
        );
    }

    fn act(
        &mut self,
        now: Timestamp,
        decision: Decision,
        summary: &Summary,
        actions: &mut Vec<Action>,
    ) {
        match decision {
            Decision::NothingToWatch => {}
            Decision::Calm | Decision::Reclaimed => self.filling.forget(),
            Decision::Reclaim(pressure) => {
                actions.push(Action::NodeEvent(pressure.event()));
                actions.push(Action::ReclaimNode {
                    signal: pressure.signal,
                    calls: pressure.calls,
                });
                self.reclaiming = Some(pressure);
            }
            Decision::NoCandidate {
                event,
                signal,
                ranking,
            } => {
                actions.push(Action::NodeEvent(event));
                actions.push(Action::NoCandidate { signal, ranking });
            }
            Decision::Evict { event, eviction } => {
                self.evict(now, Some(event), vec![*eviction], summary, actions)
            }
            Decision::EvictLocal(evictions) => self.evict(now, None, evictions, summary, actions),
        }
    }
}
