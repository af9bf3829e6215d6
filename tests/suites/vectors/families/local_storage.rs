//! Pods over their own limits, and the traces an eviction leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use eviction_core::model::{Eviction, FsLayout, NodeEvent};
use eviction_core::policy::{critical, local_storage, message};
use serde::Deserialize;
use serde_json::Value;

use crate::check::{Mismatch, read, same};
use crate::shape::{PodShape, PodStatsShape, observed_pods};

/// A call of the killer, and the status it writes.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Kill {
    uid: String,
    evict: bool,
    grace_s: i64,
    phase: String,
    reason: String,
    message: String,
    condition: Option<Condition>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    r#type: String,
    status: String,
    reason: String,
    message: String,
    observed_generation: i64,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    pod: Option<String>,
    node: Option<String>,
    r#type: String,
    reason: String,
    message: String,
    annotations: Option<BTreeMap<String, String>>,
}

impl Kill {
    pub(super) fn of(eviction: &Eviction) -> Self {
        let condition = eviction.disruption_condition.then(|| Condition {
            r#type: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: "TerminationByKubelet".to_owned(),
            message: eviction.message.clone(),
            observed_generation: eviction.pod.generation,
        });
        Self {
            uid: eviction.uid().to_string(),
            evict: true,
            grace_s: eviction.grace.0,
            phase: "Failed".to_owned(),
            reason: message::POD_REASON.to_owned(),
            message: eviction.message.clone(),
            condition,
        }
    }
}

impl Event {
    pub(super) fn of_pod(eviction: &Eviction) -> Self {
        let annotations = || {
            eviction
                .annotations
                .iter()
                .map(|(key, text)| ((*key).to_owned(), text.clone()))
                .collect()
        };
        Self {
            pod: Some(eviction.uid().to_string()),
            node: None,
            r#type: "Warning".to_owned(),
            reason: message::POD_REASON.to_owned(),
            message: eviction.message.clone(),
            // Only pressure evictions go with the condition, and only they annotate.
            annotations: eviction.disruption_condition.then(annotations),
        }
    }

    pub(super) fn of_node(event: &NodeEvent) -> Self {
        Self {
            pod: None,
            node: Some("node1".to_owned()),
            r#type: "Warning".to_owned(),
            reason: event.reason.to_owned(),
            message: event.message.clone(),
            annotations: None,
        }
    }
}

pub(crate) fn local_storage_eviction(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        pods: Vec<PodShape>,
        stats: Vec<PodStatsShape>,
        dedicated_imagefs: bool,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Out {
        evicted: Vec<String>,
        #[serde(default)]
        kills: Vec<Kill>,
        #[serde(default)]
        events: Vec<Event>,
    }
    let case: In = read(input)?;
    let pods = observed_pods(
        case.pods.iter().map(|shape| Arc::new(shape.pod())),
        &case.stats,
    );
    let layout = FsLayout {
        dedicated_imagefs: case.dedicated_imagefs,
        split_containerfs: false,
    };
    let evictions = local_storage::evictions(&pods, layout, critical::is_critical);
    let ours = Out {
        evicted: evictions
            .iter()
            .map(|eviction| eviction.uid().to_string())
            .collect(),
        kills: evictions.iter().map(Kill::of).collect(),
        events: evictions.iter().map(Event::of_pod).collect(),
    };
    same("local storage evictions", &ours, &read(output)?)
}
