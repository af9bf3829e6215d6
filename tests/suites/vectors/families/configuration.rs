//! From configured texts to limits in force.

use std::collections::BTreeMap;

use eviction_core::model::{FsLayout, Threshold};
use eviction_core::policy::thresholds::parse::{ThresholdTexts, parse};
use eviction_core::policy::{containerfs, limit};
use serde::Deserialize;
use serde_json::Value;

use crate::check::{Mismatch, among, read, same};
use crate::shape::{QuantityShape, ThresholdShape, ValueShape, null_is_default};

/// The texts as in a kubelet configuration.
#[derive(Deserialize)]
pub(super) struct Texts {
    #[serde(deserialize_with = "null_is_default")]
    enforce_node_allocatable: Vec<String>,
    #[serde(deserialize_with = "null_is_default")]
    hard: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    soft: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    soft_grace_period: BTreeMap<String, String>,
    #[serde(deserialize_with = "null_is_default")]
    minimum_reclaim: BTreeMap<String, String>,
}

impl Texts {
    pub(super) fn texts(self) -> ThresholdTexts {
        ThresholdTexts {
            hard: self.hard,
            soft: self.soft,
            soft_grace: self.soft_grace_period,
            min_reclaim: self.minimum_reclaim,
            enforce_pods_allocatable: self
                .enforce_node_allocatable
                .iter()
                .any(|name| name == "pods"),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ParseOut {
    Thresholds { thresholds: Vec<ThresholdShape> },
    Errors { errors_any_of: Vec<String> },
}

pub(crate) fn parse_threshold_config(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let ours = parse(&read::<Texts>(input)?.texts());
    let outcome = match &ours {
        Ok(thresholds) => format!("{thresholds:?}"),
        Err(error) => error.to_string(),
    };
    match (read(output)?, ours) {
        (ParseOut::Thresholds { thresholds }, Ok(ours)) => {
            // The kubelet's order is random; recorded is hard first, then by name.
            same(
                "recorded order",
                &thresholds.iter().map(ThresholdShape::key).is_sorted(),
                &true,
            )?;
            same("thresholds", &sorted(shapes(&ours)), &sorted(thresholds))
        }
        (ParseOut::Errors { errors_any_of }, Err(error)) => {
            among("error", &error.to_string(), &errors_any_of)
        }
        (ParseOut::Thresholds { thresholds }, Err(_)) => {
            same("outcome", &outcome, &format!("{thresholds:?}"))
        }
        (ParseOut::Errors { errors_any_of }, Ok(_)) => {
            same("outcome", &outcome, &format!("{errors_any_of:?}"))
        }
    }
}

/// Two thresholds may share a signal: those compare as a set.
fn sorted(mut shapes: Vec<ThresholdShape>) -> Vec<ThresholdShape> {
    shapes.sort_by_cached_key(|shape| format!("{:?} {shape:?}", shape.key()));
    shapes
}

fn shapes(thresholds: &[Threshold]) -> Vec<ThresholdShape> {
    thresholds.iter().map(ThresholdShape::of).collect()
}

#[derive(Deserialize)]
struct LimitIn {
    value: ValueShape,
    capacity: i64,
}

pub(crate) fn threshold_quantity(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let case: LimitIn = read(input)?;
    let limit = case.value.limit();
    let ours = limit::effective(&limit, case.capacity);
    same("limit", &QuantityShape::of(&ours), &read(output)?)?;
    same(
        "limit in billionths",
        &limit::effective_nanos(&limit, case.capacity),
        &ours.nanos(),
    )
}

#[derive(Deserialize)]
struct RewriteIn {
    thresholds: Vec<ThresholdShape>,
    dedicated_imagefs: bool,
    split_containerfs: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
struct RewriteOut {
    thresholds: Vec<ThresholdShape>,
    warning: Option<String>,
}

pub(crate) fn update_containerfs_thresholds(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let case: RewriteIn = read(input)?;
    let layout = FsLayout {
        dedicated_imagefs: case.dedicated_imagefs,
        split_containerfs: case.split_containerfs,
    };
    let mut thresholds: Vec<_> = case
        .thresholds
        .iter()
        .map(ThresholdShape::threshold)
        .collect();
    let overwritten = containerfs::rewrite(&mut thresholds, layout);
    let ours = RewriteOut {
        thresholds: shapes(&thresholds),
        warning: overwritten.last().map(ToString::to_string),
    };
    same("rewritten thresholds", &ours, &read(output)?)
}
