//! What `explain` finds, as data.

use super::node::NodeFigures;
use crate::model::{
    Candidate, Criterion, Exclusion, Limit, Outcome, Resource, Signal, Snapshot, Threshold,
    Timestamp,
};
use crate::policy::rank::{self, Measure};
use crate::policy::{Engine, distance, limit};
use crate::telemetry::disk_rows::DiskRow;
use serde::{Serialize, Serializer};

const NANOS: i128 = 1_000_000_000;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) signals: Vec<SignalRow>,
    pub(super) rankings: Vec<RankingReport>,
    pub(super) node: NodeFigures,
    pub(super) missing: Vec<String>,
}

/// A configured threshold and what is measured for it.
#[derive(Debug, Serialize)]
pub(super) struct SignalRow {
    #[serde(serialize_with = "name")]
    pub(super) signal: Signal,
    /// Where it is measured.
    pub(super) place: String,
    /// As configured.
    pub(super) limit: String,
    /// As an amount; unknown while the capacity is.
    pub(super) limit_amount: Option<i64>,
    pub(super) available: Option<i64>,
    pub(super) capacity: Option<i64>,
    /// What may still be used until it is met.
    pub(super) left: Option<i64>,
    pub(super) met: Option<bool>,
}

/// Who would go if this resource ran short.
#[derive(Debug, Serialize)]
pub(super) struct RankingReport {
    #[serde(serialize_with = "resource_name")]
    pub(super) resource: Resource,
    pub(super) signals: Vec<&'static str>,
    /// Whether one of them is met now.
    pub(super) met: bool,
    /// What is compared, first to last.
    pub(super) order: Vec<&'static str>,
    pub(super) victim: Option<String>,
    pub(super) candidates: Vec<CandidateRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct CandidateRow {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) has_stats: bool,
    /// This and the next `Option`s are `None` where nobody counted.
    pub(super) exceeds_request: Option<bool>,
    pub(super) priority: i32,
    pub(super) usage: Option<i128>,
    pub(super) request: i128,
    pub(super) over_request: Option<i128>,
    pub(super) victim: bool,
    pub(super) why_not: Option<String>,
    /// How a disk figure came about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) disk: Vec<DiskRow>,
}

impl Report {
    pub(super) fn new(engine: &Engine, snapshot: &Snapshot, thresholds: &[Threshold]) -> Self {
        let observations = engine.config().settings.observe(&snapshot.summary);
        let signals: Vec<_> = thresholds
            .iter()
            .map(|threshold| signal_row(threshold, &observations))
            .collect();
        let layout = snapshot.layout.unwrap_or_default();
        let mut rankings: Vec<(Measure, RankingReport)> = Vec::new();
        for row in &signals {
            let is_met = row.met == Some(true);
            // Signals that rank by the same are told together.
            let measure = Measure::of_signal(row.signal, layout);
            if let Some((_, known)) = rankings.iter_mut().find(|(m, _)| *m == measure) {
                if !known.signals.contains(&row.signal.name()) {
                    known.signals.push(row.signal.name());
                }
                known.met |= is_met;
                continue;
            }
            let resource = measure.resource();
            let ranking = engine.preview(snapshot, row.signal);
            let candidates = ranking.candidates.iter();
            let report = RankingReport {
                resource,
                signals: vec![row.signal.name()],
                met: is_met,
                order: rank::criteria(resource)
                    .into_iter()
                    .filter(|criterion| {
                        *criterion != Criterion::Preferred
                            || engine.config().additions.honor_annotations
                    })
                    .map(criterion)
                    .collect(),
                victim: ranking.victim().map(|victim| victim.pod.full_name()),
                candidates: candidates
                    .map(|candidate| candidate_row(candidate, resource, snapshot.taken))
                    .collect(),
            };
            rankings.push((measure, report));
        }
        let rankings = rankings.into_iter().map(|(_, report)| report).collect();
        Self {
            signals,
            rankings,
            node: NodeFigures::of(&snapshot.summary),
            missing: Vec::new(),
        }
    }
}

fn signal_row(threshold: &Threshold, observations: &crate::model::Observations) -> SignalRow {
    let observed = observations.get(threshold.signal);
    let left = observed.and_then(|observed| distance::to_threshold(threshold, observed));
    SignalRow {
        signal: threshold.signal,
        place: String::new(),
        limit: limit_text(threshold),
        limit_amount: observed.map(|o| limit::effective(&threshold.limit, o.capacity).value()),
        available: observed.map(|o| o.available),
        capacity: observed.map(|o| o.capacity),
        left,
        met: left.map(|left| left <= 0),
    }
}

fn limit_text(threshold: &Threshold) -> String {
    let text = |limit: &Limit| match limit {
        Limit::Quantity(quantity) => quantity.to_string(),
        // The fraction is kept in 32 bits; its noise is nothing to show.
        Limit::Percentage(part) => {
            format!("{}%", (f64::from(*part) * 1e6).round() / 1e4)
        }
    };
    let mut said = text(&threshold.limit);
    if !threshold.is_hard() {
        said.push_str(&format!(" for {}", threshold.grace));
    }
    if let Some(more) = &threshold.min_reclaim {
        said.push_str(&format!(" (+{} once met)", text(more)));
    }
    said
}

fn criterion(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::MissingStats => "has no figures",
        Criterion::ExceedsRequest => "exceeds its request",
        Criterion::Preferred => "asks to go first",
        Criterion::Priority => "lower priority",
        Criterion::OverRequest => "more above its request",
    }
}

fn candidate_row(candidate: &Candidate, resource: Resource, now: Timestamp) -> CandidateRow {
    let key = &candidate.key;
    let is_counted = match resource {
        Resource::Memory | Resource::Pids => true,
        Resource::EphemeralStorage => candidate.disk.iter().any(|d| d.bytes().is_some()),
        Resource::Inodes => candidate.disk.iter().any(|d| d.inodes().is_some()),
    };
    let is_known = key.has_stats && is_counted;
    let is_victim = candidate.outcome == Outcome::Chosen;
    CandidateRow {
        name: candidate.pod.full_name(),
        uid: candidate.pod.uid.to_string(),
        has_stats: key.has_stats,
        exceeds_request: is_known.then_some(key.exceeds_request),
        priority: key.priority,
        usage: is_known.then_some(key.usage),
        request: key.request_nanos / NANOS,
        over_request: is_known.then(|| key.over_request_nanos() / NANOS),
        victim: is_victim,
        why_not: match &candidate.outcome {
            Outcome::Chosen => None,
            // It may be large: nobody knows here.
            Outcome::Excluded(Exclusion::TooSmall) if !is_known => {
                Some("nobody counts what it uses".to_owned())
            }
            outcome => Some(outcome.to_string()),
        },
        disk: DiskRow::of(&candidate.disk, now),
    }
}

fn name<S: Serializer>(signal: &Signal, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(signal.name())
}

fn resource_name<S: Serializer>(resource: &Resource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(resource.name())
}
