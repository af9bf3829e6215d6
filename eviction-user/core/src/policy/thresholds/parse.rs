//! From configuration texts to the list of thresholds.

use std::collections::BTreeMap;

use super::super::go_float::{self, FloatError};
use crate::model::quantity::QuantityError;
use crate::model::signal::UnknownSignal;
use crate::model::span::SpanError;
use crate::model::{Limit, Operator, Quantity, Signal, Span, Threshold};

/// Texts by signal name, as a file or flag gives them.
pub type Texts = BTreeMap<String, String>;

/// The inputs of the kubelet's threshold parser.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThresholdTexts {
    pub hard: Texts,
    pub soft: Texts,
    pub soft_grace: Texts,
    pub min_reclaim: Texts,
    /// Whether `enforceNodeAllocatable` contains `pods`, which adds allocatable memory thresholds.
    pub enforce_pods_allocatable: bool,
}

/// Which of the four maps an entry is in, so that a message can name the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Hard,
    Soft,
    SoftGrace,
    MinReclaim,
}

impl Source {
    /// The key of the configuration file.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Hard => "evictionHard",
            Self::Soft => "evictionSoft",
            Self::SoftGrace => "evictionSoftGracePeriod",
            Self::MinReclaim => "evictionMinimumReclaim",
        }
    }
}

/// A refused entry: the kubelet's wording through `Display`, and where it stands.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{fault}")]
pub struct ThresholdError {
    pub source_map: Source,
    /// The signal name as written.
    pub signal: String,
    pub fault: Fault,
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Signal(#[from] UnknownSignal),
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    #[error(transparent)]
    Percentage(#[from] FloatError),
    #[error(transparent)]
    Grace(#[from] SpanError),
    #[error("eviction percentage threshold {signal} must be >= 0%: {text}")]
    PercentageBelowZero { signal: Signal, text: String },
    #[error("eviction percentage threshold {signal} must be <= 100%: {text}")]
    PercentageAbove100 { signal: Signal, text: String },
    #[error("eviction threshold {signal} must be positive: {quantity}")]
    NotPositive { signal: Signal, quantity: Quantity },
    #[error("invalid eviction grace period specified: {text}, must be a positive value")]
    NegativeGrace { text: String },
    #[error("eviction percentage minimum reclaim {signal} must be positive: {text}")]
    MinReclaimPercentage { signal: Signal, text: String },
    #[error("negative eviction minimum reclaim specified for {signal}")]
    NegativeMinReclaim { signal: Signal },
    #[error("grace period must be specified for the soft eviction threshold {signal}")]
    MissingGrace { signal: Signal },
}

/// The thresholds in the order of `Signal::ALL`, hard before soft, allocatable copies last.
///
/// With several faults the kubelet reports a random one of the first map that has any; we report
/// the first by signal name.
pub fn parse(texts: &ThresholdTexts) -> Result<Vec<Threshold>, ThresholdError> {
    let hard = by_signal(&texts.hard, Source::Hard, limit)?;
    let soft = by_signal(&texts.soft, Source::Soft, limit)?;
    let grace = by_signal(&texts.soft_grace, Source::SoftGrace, grace)?;
    let min_reclaim = by_signal(&texts.min_reclaim, Source::MinReclaim, min_reclaim)?;

    let threshold = |signal: Signal, limit: &Limit, grace: Span| Threshold {
        signal,
        operator: Operator::LessThan,
        limit: limit.clone(),
        grace,
        min_reclaim: min_reclaim.get(&signal).cloned(),
    };
    let mut thresholds: Vec<_> = hard
        .iter()
        .map(|(s, limit)| threshold(*s, limit, Span::ZERO))
        .collect();
    for (signal, limit) in &soft {
        let grace = grace.get(signal).ok_or_else(|| ThresholdError {
            source_map: Source::Soft,
            signal: signal.to_string(),
            fault: Fault::MissingGrace { signal: *signal },
        })?;
        thresholds.push(threshold(*signal, limit, *grace));
    }
    if texts.enforce_pods_allocatable {
        let copies: Vec<_> = thresholds
            .iter()
            .filter(|t| is_node_memory(t))
            .map(allocatable_copy)
            .collect();
        thresholds.extend(copies);
    }
    Ok(thresholds)
}

/// A soft threshold with a grace of zero counts as hard here, as everywhere.
fn is_node_memory(threshold: &Threshold) -> bool {
    threshold.signal == Signal::MemoryAvailable && threshold.is_hard()
}

fn allocatable_copy(threshold: &Threshold) -> Threshold {
    Threshold {
        signal: Signal::AllocatableMemoryAvailable,
        ..threshold.clone()
    }
}

/// Parses every entry; an entry that parses to `None` is switched off.
fn by_signal<T>(
    texts: &Texts,
    source: Source,
    read: impl Fn(Signal, &str) -> Result<Option<T>, Fault>,
) -> Result<BTreeMap<Signal, T>, ThresholdError> {
    let mut entries = BTreeMap::new();
    for (name, text) in texts {
        let entry = name
            .parse()
            .map_err(Fault::from)
            .and_then(|signal| Ok((signal, read(signal, text)?)));
        let (signal, value) = entry.map_err(|fault| ThresholdError {
            source_map: source,
            signal: name.clone(),
            fault,
        })?;
        if let Some(value) = value {
            entries.insert(signal, value);
        }
    }
    Ok(entries)
}

fn limit(signal: Signal, text: &str) -> Result<Option<Limit>, Fault> {
    if !text.ends_with('%') {
        let quantity: Quantity = text.parse()?;
        if quantity.sign().is_le() {
            return Err(Fault::NotPositive { signal, quantity });
        }
        return Ok(Some(Limit::Quantity(quantity)));
    }
    // The kubelet's way to switch a signal off. Only these two spellings; `0.0%` is a limit.
    if text == "0%" || text == "100%" {
        return Ok(None);
    }
    let fraction = percentage(text)?;
    if fraction < 0.0 {
        return Err(Fault::PercentageBelowZero {
            signal,
            text: text.to_owned(),
        });
    }
    if fraction > 1.0 {
        return Err(Fault::PercentageAbove100 {
            signal,
            text: text.to_owned(),
        });
    }
    Ok(Some(Limit::Percentage(fraction)))
}

fn grace(_: Signal, text: &str) -> Result<Option<Span>, Fault> {
    let grace: Span = text.parse()?;
    if grace.is_negative() {
        return Err(Fault::NegativeGrace {
            text: text.to_owned(),
        });
    }
    Ok(Some(grace))
}

fn min_reclaim(signal: Signal, text: &str) -> Result<Option<Limit>, Fault> {
    if text.ends_with('%') {
        let fraction = percentage(text)?;
        if fraction <= 0.0 {
            return Err(Fault::MinReclaimPercentage {
                signal,
                text: text.to_owned(),
            });
        }
        return Ok(Some(Limit::Percentage(fraction)));
    }
    let quantity: Quantity = text.parse()?;
    if quantity.sign().is_lt() {
        return Err(Fault::NegativeMinReclaim { signal });
    }
    Ok(Some(Limit::Quantity(quantity)))
}

/// `12.5%` as a fraction of one in 32 bits. Any number of percent signs is stripped.
fn percentage(text: &str) -> Result<f32, FloatError> {
    Ok(go_float::parse_f32(text.trim_end_matches('%'))? / 100.0)
}
