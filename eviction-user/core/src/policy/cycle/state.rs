//! What one cycle leaves to the next.

use super::super::conditions::{self, LastObserved};
use super::super::thresholds::{self, FirstObserved, Line};
use super::Settings;
use crate::model::{Condition, FsLayout, Observations, Span, Threshold, Timestamp};

/// What one cycle leaves to the next. Lost on restart, as in the kubelet.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct State {
    /// As configured, and once the layout is known with containerfs rewritten.
    pub(super) thresholds: Vec<Threshold>,
    pub(super) layout: Option<FsLayout>,
    pub(super) conditions: Vec<Condition>,
    pub(super) condition_times: LastObserved,
    /// Thresholds past their grace in the last cycle.
    pub(super) satisfied: Vec<usize>,
    pub(super) first_observed: FirstObserved,
    last_observations: Observations,
}

impl State {
    pub fn new(settings: &Settings) -> Self {
        Self {
            thresholds: settings.thresholds.clone(),
            layout: None,
            conditions: Vec::new(),
            condition_times: LastObserved::default(),
            satisfied: Vec::new(),
            first_observed: FirstObserved::new(),
            last_observations: Observations::default(),
        }
    }

    /// Whether all positions are those of thresholds; not a given for what was read from outside.
    pub fn is_consistent(&self) -> bool {
        self.satisfied
            .iter()
            .chain(self.first_observed.keys())
            .all(|at| *at < self.thresholds.len())
    }

    pub fn thresholds(&self) -> &[Threshold] {
        &self.thresholds
    }

    /// Conditions as reported: with the transition period.
    pub fn conditions(&self) -> &[Condition] {
        &self.conditions
    }

    /// Thresholds past their grace, as of the last cycle.
    pub fn satisfied(&self) -> impl Iterator<Item = &Threshold> {
        self.satisfied
            .iter()
            .map(|position| &self.thresholds[*position])
    }

    /// The file-system layout, once it is known.
    pub const fn layout(&self) -> Option<FsLayout> {
        self.layout
    }

    /// When time alone changes something: a grace period ends or a condition runs out.
    pub fn next_change(&self, transition_period: Span) -> Option<Timestamp> {
        let pending_grace = self.first_observed.iter().filter_map(|(position, since)| {
            let is_pending = !self.satisfied.contains(position);
            is_pending.then(|| since.plus(self.thresholds[*position].grace))
        });
        let expiry =
            conditions::next_expiry(&self.condition_times, &self.conditions, transition_period);
        pending_grace.chain(expiry).min()
    }

    /// Met thresholds and since when, as of the last cycle.
    pub fn first_observed(&self) -> impl Iterator<Item = (&Threshold, Timestamp)> {
        self.first_observed
            .iter()
            .map(|(position, since)| (&self.thresholds[*position], *since))
    }
}

/// Brings the state up to date and returns the thresholds that may be acted on, in list order.
pub(super) fn update(
    state: &mut State,
    settings: &Settings,
    active: usize,
    observations: &Observations,
    now: Timestamp,
) -> Vec<usize> {
    let list = &state.thresholds;
    let mut met = thresholds::below(list, 0..active, observations, Line::Entry);
    // What was acted on stays met until its minimum reclaim is reached too.
    let unresolved = thresholds::below(
        list,
        state.satisfied.iter().copied(),
        observations,
        Line::Exit,
    );
    met = thresholds::merge(list, met, &unresolved);

    let first_observed = thresholds::first_observed(&met, &state.first_observed, now);
    // Conditions do not wait for a grace period.
    let raised = conditions::of_signals(met.iter().map(|position| list[*position].signal));
    let condition_times = conditions::last_observed(&raised, &state.condition_times, now);
    let conditions = conditions::observed_since(&condition_times, settings.transition_period, now);
    let satisfied = thresholds::past_grace(list, &first_observed, now);
    let fresh =
        thresholds::with_new_stats(list, &satisfied, observations, &state.last_observations);

    state.conditions = conditions;
    state.condition_times = condition_times;
    state.first_observed = first_observed;
    state.satisfied = satisfied;
    state.last_observations = *observations;
    fresh
}
