//! The order in which pods would be evicted.

use std::sync::Arc;

use eviction_core::model::{FsLayout, ObservedPod, Ranking, Signal};
use eviction_core::policy::rank::{self, Measure};
use serde::Deserialize;
use serde_json::Value;

use super::pods::disk_parts;
use crate::check::{Mismatch, read, same};
use crate::shape::{PodShape, PodStatsShape, observed_pods};

/// Up to this many pods Go's sort keeps the input order in a tie; beyond, ties are sets.
const STABLE_UP_TO: usize = 12;

#[derive(Deserialize)]
struct Pods {
    pods: Vec<PodShape>,
    stats: Vec<PodStatsShape>,
}

impl Pods {
    fn observed(&self) -> Vec<ObservedPod> {
        observed_pods(
            self.pods.iter().map(|shape| Arc::new(shape.pod())),
            &self.stats,
        )
    }
}

#[derive(Deserialize)]
struct Order {
    order: Option<Vec<usize>>,
    /// `[start, length]` of runs of equal rank.
    #[serde(default)]
    ties: Vec<[usize; 2]>,
}

fn compare(ours: &Ranking, output: &Value) -> Result<(), Mismatch> {
    let recorded: Order = read(output)?;
    let ours: Vec<_> = ours
        .candidates
        .iter()
        .map(|candidate| candidate.input)
        .collect();
    let sorted_ties = |mut order: Vec<usize>| {
        if order.len() > STABLE_UP_TO {
            for [start, length] in &recorded.ties {
                order[*start..start + length].sort_unstable();
            }
        }
        order
    };
    same(
        "order",
        &Some(sorted_ties(ours)),
        &recorded.order.map(sorted_ties),
    )
}

pub(crate) fn memory(input: &Value, output: &Value) -> Result<(), Mismatch> {
    compare(
        &rank::by_measure(&read::<Pods>(input)?.observed(), Measure::Memory),
        output,
    )
}

pub(crate) fn pid(input: &Value, output: &Value) -> Result<(), Mismatch> {
    compare(
        &rank::by_measure(&read::<Pods>(input)?.observed(), Measure::Processes),
        output,
    )
}

pub(crate) fn disk(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        fs_types: Vec<String>,
        resource: String,
    }
    let case: In = read(input)?;
    let parts = disk_parts(&case.fs_types);
    let measure = if case.resource == "inodes" {
        Measure::Inodes(parts)
    } else {
        Measure::DiskBytes(parts)
    };
    compare(
        &rank::by_measure(&read::<Pods>(input)?.observed(), measure),
        output,
    )
}

pub(crate) fn by_signal(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        signal: String,
        dedicated_imagefs: bool,
        split_containerfs: bool,
    }
    let case: In = read(input)?;
    let layout = FsLayout {
        dedicated_imagefs: case.dedicated_imagefs,
        split_containerfs: case.split_containerfs,
    };
    match case.signal.parse::<Signal>() {
        Ok(signal) => compare(
            &rank::by_signal(&read::<Pods>(input)?.observed(), signal, layout),
            output,
        ),
        Err(_) => same("order", &None, &read::<Order>(output)?.order),
    }
}
