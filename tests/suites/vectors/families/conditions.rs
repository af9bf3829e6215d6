//! Node conditions.

use std::collections::BTreeMap;

use eviction_core::model::{Condition, Span, Timestamp};
use eviction_core::policy::conditions::{self, LastObserved};
use serde::Deserialize;
use serde_json::Value;

use crate::check::{Mismatch, read, same};
use crate::shape::{ThresholdShape, millis};

#[derive(Debug, PartialEq, Deserialize)]
struct Names {
    conditions: Vec<String>,
}

pub(super) fn condition(name: &str) -> Condition {
    let found = Condition::ALL
        .into_iter()
        .find(|condition| condition.name() == name);
    found.unwrap_or_else(|| panic!("condition {name:?}"))
}

fn last_observed(shape: &BTreeMap<String, i64>) -> LastObserved {
    let mut observed = LastObserved::default();
    for (name, at) in shape {
        observed.set(condition(name), Timestamp::from_millis(*at));
    }
    observed
}

/// In byte order, as Go sorts them.
pub(super) fn sorted_names(conditions: &[Condition]) -> Vec<String> {
    let mut names: Vec<_> = conditions.iter().map(ToString::to_string).collect();
    names.sort();
    names
}

pub(crate) fn node_conditions(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        thresholds: Vec<ThresholdShape>,
    }
    let case: In = read(input)?;
    // A signal that is not one of the nine raises nothing.
    let signals = case
        .thresholds
        .iter()
        .filter_map(|shape| shape.signal.parse().ok());
    let ours = conditions::of_signals(signals);
    same(
        "conditions",
        &Names {
            conditions: ours.iter().map(ToString::to_string).collect(),
        },
        &read(output)?,
    )
}

pub(crate) fn last_observed_at(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        conditions: Vec<String>,
        last: BTreeMap<String, i64>,
        now_ms: i64,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Out {
        observed_ms: BTreeMap<String, i64>,
    }
    let case: In = read(input)?;
    let now: Vec<_> = case.conditions.iter().map(|name| condition(name)).collect();
    let ours = conditions::last_observed(
        &now,
        &last_observed(&case.last),
        Timestamp::from_millis(case.now_ms),
    );
    let observed =
        |condition: Condition| Some((condition.to_string(), millis(ours.get(condition)?)));
    let observed_ms = Condition::ALL.into_iter().filter_map(observed).collect();
    same("observation times", &Out { observed_ms }, &read(output)?)
}

pub(crate) fn observed_since(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        observed_ms: BTreeMap<String, i64>,
        period_ms: i64,
        now_ms: i64,
    }
    let case: In = read(input)?;
    let period = Span::from_millis(case.period_ms);
    let now = Timestamp::from_millis(case.now_ms);
    let ours = conditions::observed_since(&last_observed(&case.observed_ms), period, now);
    same(
        "reported conditions",
        &Names {
            conditions: sorted_names(&ours),
        },
        &read(output)?,
    )
}
