//! Which thresholds are met, since when, and which is acted on.

use std::collections::BTreeMap;

use eviction_core::model::{Signal, Span, Threshold, Timestamp};
use eviction_core::policy::priority::{self, Class};
use eviction_core::policy::thresholds::{self, FirstObserved, Line};
use serde::Deserialize;
use serde_json::Value;

use crate::check::{Mismatch, read, same};
use crate::shape::{NodeObservation, ThresholdShape, millis, observations};

fn list(shapes: &[ThresholdShape]) -> Vec<Threshold> {
    shapes.iter().map(ThresholdShape::threshold).collect()
}

#[derive(Deserialize)]
struct MetIn {
    thresholds: Vec<ThresholdShape>,
    observations: BTreeMap<String, NodeObservation>,
    #[serde(default)]
    last_observations: BTreeMap<String, NodeObservation>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct MetOut {
    met: Vec<usize>,
    met_enforce_min_reclaim: Vec<usize>,
}

pub(crate) fn thresholds_met(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let case: MetIn = read(input)?;
    let (thresholds, observed) = (list(&case.thresholds), observations(&case.observations));
    let below = |line| thresholds::below(&thresholds, 0..thresholds.len(), &observed, line);
    let ours = MetOut {
        met: below(Line::Entry),
        met_enforce_min_reclaim: below(Line::Exit),
    };
    same("met thresholds", &ours, &read(output)?)
}

pub(crate) fn updated_stats(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Out {
        kept: Vec<usize>,
    }
    let case: MetIn = read(input)?;
    let thresholds = list(&case.thresholds);
    let all: Vec<_> = (0..thresholds.len()).collect();
    let (now, last) = (
        observations(&case.observations),
        observations(&case.last_observations),
    );
    let kept = thresholds::with_new_stats(&thresholds, &all, &now, &last);
    same("kept thresholds", &Out { kept }, &read(output)?)
}

pub(crate) fn merge_thresholds(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        a: Vec<ThresholdShape>,
        b: Vec<ThresholdShape>,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Member {
        from: String,
        idx: usize,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Out {
        result: Vec<Member>,
    }
    let case: In = read(input)?;
    let in_a = case.a.len();
    let both = list(&[case.a, case.b].concat());
    let second: Vec<_> = (in_a..both.len()).collect();
    let merged = thresholds::merge(&both, (0..in_a).collect(), &second);
    let member = |position: usize| {
        let (from, idx) = if position < in_a {
            ("a", position)
        } else {
            ("b", position - in_a)
        };
        Member {
            from: from.to_owned(),
            idx,
        }
    };
    same(
        "merged thresholds",
        &Out {
            result: merged.into_iter().map(member).collect(),
        },
        &read(output)?,
    )
}

/// Instants by position, as JSON writes them: keys are texts.
fn instants(shape: &BTreeMap<String, i64>) -> FirstObserved {
    let position = |text: &String| text.parse().unwrap_or_else(|_| panic!("position {text:?}"));
    shape
        .iter()
        .map(|(text, at)| (position(text), Timestamp::from_millis(*at)))
        .collect()
}

pub(crate) fn first_observed_at(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        current: Vec<usize>,
        last: BTreeMap<String, i64>,
        now_ms: i64,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Out {
        first_observed_ms: BTreeMap<String, i64>,
    }
    let case: In = read(input)?;
    let ours = thresholds::first_observed(
        &case.current,
        &instants(&case.last),
        Timestamp::from_millis(case.now_ms),
    );
    let first_observed_ms = ours
        .iter()
        .map(|(position, at)| (position.to_string(), millis(*at)))
        .collect();
    same(
        "first observations",
        &Out { first_observed_ms },
        &read(output)?,
    )
}

pub(crate) fn met_grace_period(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        pool: Vec<ThresholdShape>,
        observed_at_ms: BTreeMap<String, i64>,
        now_ms: i64,
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Out {
        met: Vec<usize>,
    }
    let case: In = read(input)?;
    let now = Timestamp::from_millis(case.now_ms);
    let met = thresholds::past_grace(&list(&case.pool), &instants(&case.observed_at_ms), now);
    same("thresholds past grace", &Out { met }, &read(output)?)
}

pub(crate) fn by_eviction_priority(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        thresholds: Vec<ThresholdShape>,
    }
    #[derive(Deserialize)]
    struct Out {
        first_class: String,
        reclaimable: bool,
        reclaim_resource: Option<String>,
    }
    let case: In = read(input)?;
    let recorded: Out = read(output)?;
    // Unknown signals cannot be in a list of ours; the class still places them, behind all others.
    let known: Vec<_> = case
        .thresholds
        .iter()
        .filter(|shape| shape.signal.parse::<Signal>().is_ok())
        .map(ThresholdShape::threshold)
        .collect();
    let mut order: Vec<_> = (0..known.len()).collect();
    priority::sort(&known, &mut order);
    let classes: Vec<_> = order
        .iter()
        .map(|position| priority::class(Some(known[*position].signal)))
        .collect();
    same("classes in order", &classes.is_sorted(), &true)?;
    let hard_after_soft = order.windows(2).any(|pair| {
        let [first, second] = [&known[pair[0]], &known[pair[1]]];
        let same_class =
            priority::class(Some(first.signal)) == priority::class(Some(second.signal));
        same_class && first.grace > Span::ZERO && second.is_hard()
    });
    same("hard after soft in one class", &hard_after_soft, &false)?;

    let all_classes = case
        .thresholds
        .iter()
        .map(|shape| priority::class(shape.signal.parse().ok()));
    let first_class = match all_classes.min() {
        None => "none",
        Some(Class::Memory) => "memory",
        Some(Class::Other) => "other",
        Some(Class::Unknown) => recorded.first_class.as_str(),
    };
    same("first class", &first_class, &recorded.first_class.as_str())?;
    same(
        "something to reclaim",
        &!order.is_empty(),
        &recorded.reclaimable,
    )?;
    // The kubelet's choice among several of a class depends on its input order.
    let resource = order
        .first()
        .map(|position| known[*position].signal.resource().name());
    if first_class == "memory" {
        same(
            "resource to reclaim",
            &resource,
            &recorded.reclaim_resource.as_deref(),
        )?;
    }
    Ok(())
}
