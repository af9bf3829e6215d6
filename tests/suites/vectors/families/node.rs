//! What is observed of the node, and what can be reclaimed on it.

use std::collections::BTreeMap;

use eviction_core::model::{FsLayout, ReclaimCall, Signal};
use eviction_core::policy::{memcg, observe, reclaim};
use serde::Deserialize;
use serde_json::Value;

use crate::check::{Mismatch, read, same};
use crate::shape::{NodeObservation, NodeSummary, ThresholdShape};

pub(crate) fn signal_observations(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        summary: NodeSummary,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Out {
        observations: BTreeMap<String, NodeObservation>,
    }
    let case: In = read(input)?;
    let ours = observe::observations(&case.summary.summary());
    let observations = ours
        .iter()
        .map(|(signal, observation)| (signal.to_string(), NodeObservation::of(observation)))
        .collect();
    same("observations", &Out { observations }, &read(output)?)
}

pub(super) fn call_name(call: ReclaimCall) -> String {
    match call {
        ReclaimCall::DeadContainers => "delete_all_unused_containers".to_owned(),
        ReclaimCall::UnusedImages => "delete_unused_images".to_owned(),
    }
}

pub(crate) fn reclaim_funcs(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        signal: String,
        dedicated_imagefs: bool,
        split_containerfs: bool,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Out {
        present: bool,
        calls: Vec<String>,
    }
    let case: In = read(input)?;
    let layout = FsLayout {
        dedicated_imagefs: case.dedicated_imagefs,
        split_containerfs: case.split_containerfs,
    };
    let signal = case.signal.parse::<Signal>().ok();
    let calls = signal.and_then(|signal| reclaim::calls(signal, layout));
    let names = calls
        .unwrap_or_default()
        .iter()
        .map(|call| call_name(*call))
        .collect();
    same(
        "reclaim calls",
        &Out {
            present: calls.is_some(),
            calls: names,
        },
        &read(output)?,
    )
}

pub(crate) fn memcg_threshold(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        threshold: ThresholdShape,
        summary: NodeSummary,
    }
    #[derive(Deserialize)]
    struct Out {
        memcg_threshold: Option<i64>,
        error_prefix: Option<String>,
        description: String,
    }
    let case: In = read(input)?;
    let recorded: Out = read(output)?;
    let threshold = case.threshold.threshold();
    same(
        "description",
        &memcg::description(&threshold),
        &recorded.description,
    )?;
    match memcg::usage_level(&threshold, &case.summary.summary()) {
        Ok(level) => {
            same("usage level", &Some(level), &recorded.memcg_threshold)?;
            same("error", &None, &recorded.error_prefix)
        }
        Err(error) => {
            let starts_alike = recorded
                .error_prefix
                .as_ref()
                .is_some_and(|prefix| error.to_string().starts_with(prefix));
            same("usage level", &None, &recorded.memcg_threshold)?;
            same(
                "error",
                &(error.to_string(), starts_alike),
                &(error.to_string(), true),
            )
        }
    }
}
