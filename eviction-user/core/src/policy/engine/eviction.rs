//! From evictions that are due to evictions that happen, unless an addition holds them back.

use super::super::additions::{dying_guard, stall_guard};
use super::{Engine, Waiting};
use crate::model::{Action, Eviction, EvictionCause, Hold, NodeEvent, Span, Summary, Timestamp};

/// How soon a guard is asked again whose answer depends on what is measured: the threshold stays met
/// meanwhile, so nothing else would ask before the monitoring interval.
const RECHECK: Span = Span::from_secs(1);

impl Engine {
    pub(super) fn evict(
        &mut self,
        now: Timestamp,
        event: Option<NodeEvent>,
        mut evictions: Vec<Eviction>,
        summary: &Summary,
        actions: &mut Vec<Action>,
    ) {
        if let Some(hold) = self.hold(now, &evictions, summary) {
            self.held_until = match &hold {
                // Nothing happens on that disk: the monitoring interval is soon enough.
                Hold::NotFilling { .. } => None,
                hold => Some(now.plus(hold.left().unwrap_or(RECHECK))),
            };
            actions.push(Action::Held(hold));
            return;
        }
        evictions.truncate(self.pace.room(now));
        for eviction in &evictions {
            self.filling.evicted(eviction);
            self.pace.record(eviction.uid().clone(), now);
        }
        self.waiting = Some(Waiting::new(&evictions, now));
        actions.extend(event.map(Action::NodeEvent));
        actions.extend(
            evictions
                .into_iter()
                .map(|eviction| Action::Evict(Box::new(eviction))),
        );
    }

    fn hold(&mut self, now: Timestamp, evictions: &[Eviction], summary: &Summary) -> Option<Hold> {
        let first = evictions.first()?;
        if self.config.additions.only_while_filling
            && let Some(hold) = self.filling.hold(first)
        {
            return Some(hold);
        }
        self.pace.hold(now).or_else(|| match &first.cause {
            EvictionCause::Pressure { resource, .. } => {
                let additions = &self.config.additions;
                stall_guard::hold(additions.min_stall_percent, *resource, summary)
                    .or_else(|| dying_guard::hold(additions.max_dying_cgroups, *resource, summary))
            }
            // A pod over its own limit goes, however the node is doing.
            EvictionCause::LocalStorage(_) => None,
        })
    }
}
