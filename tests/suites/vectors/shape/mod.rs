//! The documented shapes of the recordings, and their translation into the core's types. Nothing
//! here decides anything.

mod node;
mod pod;
mod stats;
mod threshold;

use eviction_core::model::{Quantity, Signal, Timestamp};
use serde::{Deserialize, Deserializer};

pub(crate) use node::{NodeObservation, NodeSummary, observations};
pub(crate) use pod::PodShape;
pub(crate) use stats::{PodStatsShape, observed_pods};
pub(crate) use threshold::{ThresholdShape, ValueShape};

/// A quantity: canonical text and value, rounded up to a whole unit (or milli-unit for cpu).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct QuantityShape {
    pub(crate) s: String,
    pub(crate) v: Option<i64>,
    pub(crate) m: Option<i64>,
}

impl QuantityShape {
    pub(crate) fn of(quantity: &Quantity) -> Self {
        Self {
            s: quantity.to_string(),
            v: Some(quantity.value()),
            m: None,
        }
    }

    /// A text that its own format would not print was made from a number, in binary format.
    pub(crate) fn quantity(&self) -> Quantity {
        let parsed: Quantity = self
            .s
            .parse()
            .unwrap_or_else(|error| panic!("recorded quantity {:?}: {error}", self.s));
        match self.v {
            Some(value) if parsed.to_string() != self.s => Quantity::binary(value),
            _ => parsed,
        }
    }
}

/// An instant as milliseconds from the recording's time base; absent is Go's zero time.
pub(crate) fn instant(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(Timestamp::from_millis)
}

pub(crate) fn millis(at: Timestamp) -> i64 {
    at.as_nanos() / 1_000_000
}

pub(crate) fn signal(name: &str) -> Signal {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// `null` means the same as absent.
pub(crate) fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
