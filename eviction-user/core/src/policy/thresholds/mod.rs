//! Which thresholds are met, since when, and whether they may be acted on.
//!
//! A threshold is identified by its position in the configured list, as the kubelet's map keys
//! (structs with pointers) amount to.

pub mod defaults;
pub mod flags;
pub mod parse;

use std::collections::BTreeMap;

use super::limit::effective_nanos;
use crate::model::{Observation, Observations, Operator, Threshold, Timestamp};

/// Since when each threshold, by position, has been met without a break.
pub type FirstObserved = BTreeMap<usize, Timestamp>;

/// The line a signal is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// The limit itself: where pressure starts.
    Entry,
    /// Limit plus minimum reclaim: where pressure that was acted on ends.
    Exit,
}

/// Whether the threshold's limit is above what is available. Equal is not met. Does not allocate.
pub fn is_met(threshold: &Threshold, observation: &Observation) -> bool {
    is_below(threshold, observation, Line::Entry)
}

/// Like [`is_met`], for either line.
pub fn is_below(threshold: &Threshold, observation: &Observation, line: Line) -> bool {
    if threshold.operator == Operator::Never {
        return false;
    }
    let mut line_nanos = effective_nanos(&threshold.limit, observation.capacity);
    if line == Line::Exit
        && let Some(min_reclaim) = &threshold.min_reclaim
    {
        line_nanos = line_nanos.saturating_add(effective_nanos(min_reclaim, observation.capacity));
    }
    line_nanos > i128::from(observation.available) * 1_000_000_000
}

/// Positions of those `among` whose signal was observed and is below the line, in the given order.
pub fn below(
    thresholds: &[Threshold],
    among: impl IntoIterator<Item = usize>,
    observations: &Observations,
    line: Line,
) -> Vec<usize> {
    let is_below = |position: &usize| {
        let threshold = &thresholds[*position];
        observations
            .get(threshold.signal)
            .is_some_and(|observation| is_below(threshold, observation, line))
    };
    among.into_iter().filter(is_below).collect()
}

/// All of `first`, then those of `second` that ask for something not yet in the list.
pub fn merge(thresholds: &[Threshold], first: Vec<usize>, second: &[usize]) -> Vec<usize> {
    let mut merged = first;
    for position in second {
        if !merged
            .iter()
            .any(|have| thresholds[*have].is_same_as(&thresholds[*position]))
        {
            merged.push(*position);
        }
    }
    merged
}

/// A threshold met before keeps its time; one not met now is forgotten, so a single good sample
/// restarts a soft grace period.
pub fn first_observed(met: &[usize], last: &FirstObserved, now: Timestamp) -> FirstObserved {
    met.iter()
        .map(|position| (*position, last.get(position).copied().unwrap_or(now)))
        .collect()
}

/// Positions of the thresholds whose grace period is over.
pub fn past_grace(
    thresholds: &[Threshold],
    observed: &FirstObserved,
    now: Timestamp,
) -> Vec<usize> {
    observed
        .iter()
        .filter(|(position, since)| now.since(**since) >= thresholds[**position].grace)
        .map(|(position, _)| *position)
        .collect()
}

/// Those measured anew since the last cycle, so that one sample never evicts twice. A source without
/// a time always counts as new.
pub fn with_new_stats(
    thresholds: &[Threshold],
    among: &[usize],
    observations: &Observations,
    last: &Observations,
) -> Vec<usize> {
    let is_new = |position: &usize| {
        let signal = thresholds[*position].signal;
        match (observations.get(signal), last.get(signal)) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(now), Some(last)) => now.time.is_none() || now.time > last.time,
        }
    };
    among.iter().copied().filter(is_new).collect()
}
