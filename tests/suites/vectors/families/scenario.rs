//! Whole timelines through the cycle.

use std::collections::BTreeMap;
use std::sync::Arc;

use eviction_core::model::{FsLayout, Pod, Snapshot, Span, Threshold, Timestamp};
use eviction_core::policy::Settings;
use eviction_core::policy::additions::Additions;
use eviction_core::policy::additions::exclusion::{BackedOff, Exclusions, Refused};
use eviction_core::policy::admission;
use eviction_core::policy::cycle::{self, Decision, State};
use eviction_core::policy::thresholds::parse::parse;
use serde::Deserialize;
use serde_json::Value;

use super::conditions::sorted_names;
use super::configuration::Texts;
use super::local_storage::{Event, Kill};
use super::node::call_name;
use super::pods::AdmitOut;
use crate::check::{Mismatch, among, read};
use crate::shape::{NodeSummary, PodShape, millis, observed_pods};

#[derive(Deserialize)]
struct In {
    config: Config,
    pods: Vec<PodShape>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(flatten)]
    texts: Texts,
    pressure_transition_ms: i64,
    max_pod_grace_s: i64,
    local_storage_capacity_isolation: bool,
    dedicated_imagefs: bool,
    split_containerfs: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    advance_ms: i64,
    #[serde(default)]
    active: Vec<usize>,
    summary: Option<NodeSummary>,
    #[serde(default)]
    summary_error: bool,
    summary_after_reclaim: Option<NodeSummary>,
    #[serde(default)]
    summary_after_reclaim_error: bool,
    #[expect(
        dead_code,
        reason = "the kubelet counts a failed kill as an eviction, so it changes nothing"
    )]
    #[serde(default)]
    kill_error: bool,
    #[serde(default)]
    disk_info_error: bool,
    #[expect(
        dead_code,
        reason = "errors of node-level reclaim are ignored, so it changes nothing"
    )]
    #[serde(default)]
    gc_error: bool,
    #[serde(default)]
    admit: Vec<usize>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepOut {
    now_ms: i64,
    #[serde(default)]
    evicted: Vec<String>,
    #[serde(default)]
    kills: Vec<Kill>,
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default)]
    reclaim_calls: Vec<String>,
    summary_gets: u32,
    #[serde(default)]
    conditions: Vec<String>,
    #[serde(default)]
    thresholds_met: Vec<String>,
    #[serde(default)]
    first_observed_ms: BTreeMap<String, i64>,
    error: Option<String>,
    #[serde(default)]
    admit: Vec<AdmitOut>,
}

#[derive(Deserialize)]
struct Out {
    steps: Vec<StepOut>,
    #[serde(default)]
    alternates: Vec<Alternates>,
}

/// Every outcome seen at a step where the kubelet chooses at random.
#[derive(Deserialize)]
struct Alternates {
    step: usize,
    any_of: Vec<StepOut>,
}

pub(crate) fn scenario(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let case: In = read(input)?;
    let recorded: Out = read(output)?;
    let mut accepted: Vec<Vec<StepOut>> =
        recorded.steps.into_iter().map(|step| vec![step]).collect();
    for alternates in recorded.alternates {
        accepted[alternates.step].extend(alternates.any_of);
    }
    let mut timeline = Timeline::new(case.config, &case.pods);
    assert_eq!(
        case.steps.len(),
        accepted.len(),
        "as many outcomes as steps"
    );
    for (step, accepted) in case.steps.iter().zip(&accepted) {
        among("step", &timeline.run(step), accepted)?;
    }
    Ok(())
}

struct Timeline {
    settings: Settings,
    layout: FsLayout,
    pods: Vec<Arc<Pod>>,
    state: State,
    now_ms: i64,
}

impl Timeline {
    fn new(config: Config, pods: &[PodShape]) -> Self {
        let thresholds = parse(&config.texts.texts())
            .unwrap_or_else(|error| panic!("recorded configuration: {error}"));
        let settings = Settings {
            transition_period: Span::from_millis(config.pressure_transition_ms),
            max_pod_grace_secs: config.max_pod_grace_s,
            local_storage_isolation: config.local_storage_capacity_isolation,
            ..Settings::with_thresholds(thresholds)
        };
        Self {
            state: State::new(&settings),
            settings,
            layout: FsLayout {
                dedicated_imagefs: config.dedicated_imagefs,
                split_containerfs: config.split_containerfs,
            },
            pods: pods.iter().map(|shape| Arc::new(shape.pod())).collect(),
            now_ms: 0,
        }
    }

    fn run(&mut self, step: &Step) -> StepOut {
        self.now_ms += step.advance_ms;
        let mut out = StepOut {
            now_ms: self.now_ms,
            ..StepOut::default()
        };
        if let Err(error) = self.cycle(step, &mut out) {
            out.error = Some(error);
        }
        out.conditions = sorted_names(self.state.conditions());
        out.thresholds_met = self.state.satisfied().map(label).collect();
        out.thresholds_met.sort();
        out.first_observed_ms = self
            .state
            .first_observed()
            .map(|(threshold, since)| (label(threshold), millis(since)))
            .collect();
        out.admit = step
            .admit
            .iter()
            .map(|pod| self.admit(&self.pods[*pod]))
            .collect();
        out
    }

    fn admit(&self, pod: &Pod) -> AdmitOut {
        let mut conditions = self.state.conditions().to_vec();
        conditions.sort_by_key(|condition| condition.name());
        AdmitOut::of(
            admission::admit(pod, &conditions),
            Some(pod.uid.to_string()),
        )
    }

    /// One cycle; an error in the kubelet's words.
    fn cycle(&mut self, step: &Step, out: &mut StepOut) -> Result<(), String> {
        let layout = (!step.disk_info_error).then_some(self.layout);
        let to_text =
            |_| "eviction manager: failed to get HasDedicatedImageFs: disk info error".to_owned();
        let Some(shape) = step.summary.as_ref().filter(|_| !step.summary_error) else {
            if cycle::watches_anything(&self.settings) {
                cycle::prepare(&mut self.state, layout).map_err(to_text)?;
                out.summary_gets = 1;
            }
            return Ok(());
        };
        let active = step.active.iter().map(|pod| self.pods[*pod].clone());
        let now = Timestamp::from_millis(self.now_ms);
        let snapshot = Arc::new(Snapshot {
            taken: now,
            summary: shape.summary(),
            pods: observed_pods(active, &shape.pods),
            layout,
        });
        let (additions, backed_off) = (Additions::default(), BackedOff::new());
        let exclusions = Exclusions {
            additions: &additions,
            backed_off: &backed_off,
            refused: &Refused::default(),
        };
        let mut decision = cycle::run(&mut self.state, &self.settings, &exclusions, now, &snapshot)
            .map_err(to_text)?;
        out.summary_gets = u32::from(decision != Decision::NothingToWatch);
        if let Decision::Reclaim(pressure) = &decision {
            out.events.push(Event::of_node(&pressure.event()));
            out.reclaim_calls = pressure.calls.iter().map(|call| call_name(*call)).collect();
            out.summary_gets += 1;
            let second = step
                .summary_after_reclaim
                .as_ref()
                .unwrap_or(shape)
                .summary();
            let second = (!step.summary_after_reclaim_error).then_some(&second);
            decision =
                cycle::after_reclaim(&self.state, &self.settings, &exclusions, pressure, second);
        }
        carry_out(decision, out);
        Ok(())
    }
}

fn carry_out(decision: Decision, out: &mut StepOut) {
    let (event, evictions) = match decision {
        Decision::Evict { event, eviction } => (Some(event), vec![*eviction]),
        Decision::EvictLocal(evictions) => (None, evictions),
        Decision::NoCandidate { event, .. } => (Some(event), Vec::new()),
        _ => return,
    };
    // Reclaim has the node's event already.
    out.events.extend(
        event
            .filter(|_| out.reclaim_calls.is_empty())
            .iter()
            .map(Event::of_node),
    );
    for eviction in &evictions {
        out.events.push(Event::of_pod(eviction));
        out.kills.push(Kill::of(eviction));
        out.evicted.push(eviction.uid().to_string());
    }
}

fn label(threshold: &Threshold) -> String {
    format!(
        "{}:{}",
        threshold.signal,
        if threshold.is_hard() { "hard" } else { "soft" }
    )
}
