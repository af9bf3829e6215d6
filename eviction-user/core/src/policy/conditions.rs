//! Node conditions: raised at once, reported until a transition period has passed without cause.

use crate::model::{Condition, Signal, Span, Timestamp};

/// When each condition last had a cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LastObserved([Option<Timestamp>; Condition::ALL.len()]);

impl LastObserved {
    pub const fn get(&self, condition: Condition) -> Option<Timestamp> {
        self.0[condition.index()]
    }

    pub fn set(&mut self, condition: Condition, at: Timestamp) {
        self.0[condition.index()] = Some(at);
    }
}

/// The conditions that these signals raise, in order of first appearance.
pub fn of_signals(signals: impl IntoIterator<Item = Signal>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for condition in signals.into_iter().map(Signal::condition) {
        if !conditions.contains(&condition) {
            conditions.push(condition);
        }
    }
    conditions
}

/// Stamps the conditions that have a cause now; the others keep their time, which is never removed.
pub fn last_observed(
    conditions: &[Condition],
    last: &LastObserved,
    now: Timestamp,
) -> LastObserved {
    let mut observed = *last;
    for condition in conditions {
        observed.set(*condition, now);
    }
    observed
}

/// Conditions to report: those whose cause is younger than the transition period. A period of zero
/// hides them all, as the kubelet does.
pub fn observed_since(observed: &LastObserved, period: Span, now: Timestamp) -> Vec<Condition> {
    let is_recent = |condition: &Condition| {
        observed
            .get(*condition)
            .is_some_and(|at| now.since(at) < period)
    };
    Condition::ALL.into_iter().filter(is_recent).collect()
}

/// When the first of the reported conditions runs out, if nothing renews it.
pub fn next_expiry(
    observed: &LastObserved,
    reported: &[Condition],
    period: Span,
) -> Option<Timestamp> {
    reported
        .iter()
        .filter_map(|condition| Some(observed.get(*condition)?.plus(period)))
        .min()
}
