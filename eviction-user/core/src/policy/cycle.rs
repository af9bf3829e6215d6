//! One pass of the kubelet's control loop, up to the point where something has to be done.
//!
//! A pure function of the state, the settings, the time and one look. Whether a kill succeeds plays
//! no part: the kubelet counts a failed one as done. `engine` knows better.

use std::sync::Arc;

use super::additions::exclusion::Exclusions;
use super::additions::memory_figure::MemoryFigure;
use super::conditions::{self, LastObserved};
use super::thresholds::{self, FirstObserved, Line};
use super::{containerfs, local_storage, message, priority, rank, reclaim};
use crate::model::{
    Condition, Eviction, EvictionCause, FsLayout, KillGrace, NodeEvent, Observations, Pod, Ranking,
    ReclaimCall, Signal, Snapshot, Span, Summary, Threshold, Timestamp,
};

/// Configuration of the policy, already parsed.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub thresholds: Vec<Threshold>,
    /// How long a condition is reported after its last cause. Zero reports none, ever.
    pub transition_period: Span,
    /// `evictionMaxPodGracePeriod`. Zero and below mean one second to a killer.
    pub max_pod_grace_secs: i64,
    /// Whether pods are held to their own limits on local storage.
    pub local_storage_isolation: bool,
    /// Which memory figure thresholds are compared with.
    pub memory_figure: MemoryFigure,
}

impl Settings {
    /// The kubelet's defaults around a list of thresholds.
    pub fn with_thresholds(thresholds: Vec<Threshold>) -> Self {
        Self {
            thresholds,
            transition_period: Span::from_secs(300),
            max_pod_grace_secs: 0,
            local_storage_isolation: true,
            memory_figure: MemoryFigure::KUBELET,
        }
    }

    pub fn observe(&self, summary: &Summary) -> Observations {
        self.memory_figure.observe(summary)
    }
}

/// What one cycle leaves to the next. Lost on restart, as in the kubelet.
#[derive(Debug, Clone, PartialEq)]
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

    /// Met thresholds and since when, as of the last cycle.
    pub fn first_observed(&self) -> impl Iterator<Item = (&Threshold, Timestamp)> {
        self.first_observed
            .iter()
            .map(|(position, since)| (&self.thresholds[*position], *since))
    }
}

/// The file-system layout is asked for once; until it is known no cycle can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file-system layout of the node is not known yet")]
pub struct LayoutUnknown;

/// What a cycle comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Neither thresholds nor local storage limits: nothing was looked at.
    NothingToWatch,
    /// Nothing has to go.
    Calm,
    /// Pods that broke their own limits.
    EvictLocal(Vec<Eviction>),
    /// Node-level resources are to be freed first; answer with [`after_reclaim`].
    Reclaim(Box<Pressure>),
    /// Freeing node-level resources was enough.
    Reclaimed,
    Evict {
        event: NodeEvent,
        eviction: Box<Eviction>,
    },
    /// A threshold asks for a victim, and nobody may go.
    NoCandidate {
        event: NodeEvent,
        signal: Signal,
        ranking: Box<Ranking>,
    },
}

/// A threshold to act on, with the look that showed it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pressure {
    snapshot: Arc<Snapshot>,
    observations: Observations,
    layout: FsLayout,
    /// Thresholds that may be acted on, in order of priority; never empty.
    fresh: Vec<usize>,
    pub signal: Signal,
    pub calls: &'static [ReclaimCall],
}

impl Pressure {
    pub fn event(&self) -> NodeEvent {
        let message = format!("Attempting to reclaim {}", self.signal.resource());
        NodeEvent {
            reason: message::NODE_REASON,
            message,
        }
    }
}

/// Whether there is anything to watch at all.
pub fn watches_anything(settings: &Settings) -> bool {
    !settings.thresholds.is_empty() || settings.local_storage_isolation
}

/// The first step, done even when reading statistics then fails: keeps the layout and rewrites the
/// containerfs thresholds once. Returns how many thresholds count in this cycle: appended ones first
/// act in the next.
pub fn prepare(state: &mut State, layout: Option<FsLayout>) -> Result<usize, LayoutUnknown> {
    let active = state.thresholds.len();
    if state.layout.is_none() {
        let layout = layout.ok_or(LayoutUnknown)?;
        state.layout = Some(layout);
        containerfs::rewrite(&mut state.thresholds, layout);
    }
    Ok(active)
}

/// One cycle on a fresh look.
pub fn run(
    state: &mut State,
    settings: &Settings,
    exclusions: &Exclusions<'_>,
    now: Timestamp,
    snapshot: &Arc<Snapshot>,
) -> Result<Decision, LayoutUnknown> {
    if !watches_anything(settings) {
        return Ok(Decision::NothingToWatch);
    }
    let active = prepare(state, snapshot.layout)?;
    let layout = state.layout.ok_or(LayoutUnknown)?;
    let observations = settings.observe(&snapshot.summary);
    let mut fresh = update(state, settings, active, &observations, now);

    if settings.local_storage_isolation {
        let evictions = local_storage::evictions(&snapshot.pods, layout, |pod| {
            exclusions.of_pod(pod).is_some()
        });
        if !evictions.is_empty() {
            return Ok(Decision::EvictLocal(evictions));
        }
    }
    priority::sort(&state.thresholds, &mut fresh);
    let Some(first) = fresh.first() else {
        return Ok(Decision::Calm);
    };
    let signal = state.thresholds[*first].signal;
    let calls = reclaim::calls(signal, layout).unwrap_or_default();
    let pressure = Pressure {
        snapshot: snapshot.clone(),
        observations,
        layout,
        fresh,
        signal,
        calls,
    };
    if calls.is_empty() {
        return Ok(evict_one(state, settings, exclusions, &pressure));
    }
    Ok(Decision::Reclaim(Box::new(pressure)))
}

/// Goes on after node-level reclaim with a second reading (`None`: it failed). Done if no threshold
/// at all, of any signal, is below its exit line; else a pod has to go, chosen on the first look.
pub fn after_reclaim(
    state: &State,
    settings: &Settings,
    exclusions: &Exclusions<'_>,
    pressure: &Pressure,
    second: Option<&Summary>,
) -> Decision {
    if let Some(second) = second {
        let observations = settings.observe(second);
        let all = 0..state.thresholds.len();
        if thresholds::below(&state.thresholds, all, &observations, Line::Exit).is_empty() {
            return Decision::Reclaimed;
        }
    }
    evict_one(state, settings, exclusions, pressure)
}

/// Brings the state up to date and returns the thresholds that may be acted on, in list order.
fn update(
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

fn evict_one(
    state: &State,
    settings: &Settings,
    exclusions: &Exclusions<'_>,
    pressure: &Pressure,
) -> Decision {
    let event = pressure.event();
    let snapshot = &pressure.snapshot;
    let mut ranking = rank::by_signal(&snapshot.pods, pressure.signal, pressure.layout);
    exclusions.choose(&mut ranking);
    let Some(victim) = ranking.victim() else {
        return Decision::NoCandidate {
            event,
            signal: pressure.signal,
            ranking: Box::new(ranking),
        };
    };
    let pod = victim.pod.clone();
    let stats = snapshot.pods[victim.input].stats.as_ref();
    let threshold = &state.thresholds[pressure.fresh[0]];
    let resource = pressure.signal.resource();
    let quotable = pressure
        .fresh
        .iter()
        .map(|position| &state.thresholds[*position]);
    let message = message::of_eviction(resource, &pod, stats, quotable, &pressure.observations);
    let eviction = Eviction {
        grace: kill_grace(threshold, settings, &pod),
        message: message.text,
        annotations: message.annotations,
        disruption_condition: true,
        cause: EvictionCause::Pressure {
            resource,
            threshold: threshold.clone(),
            observed: pressure.observations.get(pressure.signal).copied(),
            ranking: Box::new(ranking),
        },
        pod,
    };
    Decision::Evict {
        event,
        eviction: Box::new(eviction),
    }
}

/// One second for a hard threshold, else the configured maximum or the pod's own, if that is less.
fn kill_grace(threshold: &Threshold, settings: &Settings, pod: &Pod) -> KillGrace {
    if threshold.is_hard() {
        return KillGrace(1);
    }
    let maximum = settings.max_pod_grace_secs;
    KillGrace(
        pod.termination_grace_secs
            .map_or(maximum, |own| own.min(maximum)),
    )
}
