//! What an eviction says.

use std::collections::BTreeMap;

use eviction_core::model::Resource;
use eviction_core::policy::message;
use serde::Deserialize;
use serde_json::Value;

use crate::check::{Mismatch, read, same};
use crate::shape::{NodeObservation, PodShape, PodStatsShape, ThresholdShape, observations};

pub(crate) fn eviction_message(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        resource: String,
        pod: PodShape,
        stats: Vec<PodStatsShape>,
        thresholds: Vec<ThresholdShape>,
        observations: BTreeMap<String, NodeObservation>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Out {
        message: String,
        annotations: BTreeMap<String, String>,
    }
    let case: In = read(input)?;
    let resources = [
        Resource::Memory,
        Resource::EphemeralStorage,
        Resource::Inodes,
        Resource::Pids,
    ];
    let resource = resources
        .into_iter()
        .find(|resource| resource.name() == case.resource);
    let resource = resource.unwrap_or_else(|| panic!("resource {:?}", case.resource));
    let thresholds: Vec<_> = case
        .thresholds
        .iter()
        .map(ThresholdShape::threshold)
        .collect();
    let stats = case.stats.first().map(PodStatsShape::stats);
    let observed = observations(&case.observations);
    let ours = message::of_eviction(
        resource,
        &case.pod.pod(),
        stats.as_ref(),
        &thresholds,
        &observed,
    );
    let annotations = ours
        .annotations
        .into_iter()
        .map(|(key, text)| (key.to_owned(), text))
        .collect();
    same(
        "message",
        &Out {
            message: ours.text,
            annotations,
        },
        &read(output)?,
    )
}
