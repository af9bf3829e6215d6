//! Thresholds and their values.

use eviction_core::model::{Limit, Operator, Span, Threshold};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::{QuantityShape, signal};

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThresholdShape {
    pub(crate) signal: String,
    operator: String,
    grace_ms: i64,
    grace_ns: Option<i64>,
    value: ValueShape,
    min_reclaim: Option<ValueShape>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ValueShape {
    quantity: Option<QuantityShape>,
    /// The bits say the same exactly.
    #[serde(default, rename = "percentage", deserialize_with = "ignored")]
    _percentage: (),
    percentage_f32_bits: Option<u32>,
}

impl ValueShape {
    pub(crate) fn limit(&self) -> Limit {
        match (&self.quantity, self.percentage_f32_bits) {
            (Some(quantity), _) => Limit::Quantity(quantity.quantity()),
            (None, bits) => Limit::Percentage(f32::from_bits(bits.unwrap_or(0))),
        }
    }

    fn of(limit: &Limit) -> Self {
        let (quantity, percentage_f32_bits) = match limit {
            Limit::Quantity(quantity) => (Some(QuantityShape::of(quantity)), None),
            Limit::Percentage(fraction) => (None, Some(fraction.to_bits())),
        };
        Self {
            quantity,
            _percentage: (),
            percentage_f32_bits,
        }
    }
}

impl ThresholdShape {
    /// What recorded lists are sorted by.
    pub(crate) fn key(&self) -> (bool, &str) {
        (self.grace_ms != 0 || self.grace_ns.is_some(), &self.signal)
    }

    pub(crate) fn threshold(&self) -> Threshold {
        Threshold {
            signal: signal(&self.signal),
            operator: if self.operator == "LessThan" {
                Operator::LessThan
            } else {
                Operator::Never
            },
            limit: self.value.limit(),
            grace: Span::from_nanos(self.grace_ns.unwrap_or(self.grace_ms * 1_000_000)),
            min_reclaim: self.min_reclaim.as_ref().map(ValueShape::limit),
        }
    }

    pub(crate) fn of(threshold: &Threshold) -> Self {
        let nanos = threshold.grace.as_nanos();
        Self {
            signal: threshold.signal.to_string(),
            operator: match threshold.operator {
                Operator::LessThan => "LessThan".to_owned(),
                Operator::Never => String::new(),
            },
            grace_ms: nanos / 1_000_000,
            grace_ns: (nanos % 1_000_000 != 0).then_some(nanos),
            value: ValueShape::of(&threshold.limit),
            min_reclaim: threshold.min_reclaim.as_ref().map(ValueShape::of),
        }
    }
}

fn ignored<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
    IgnoredAny::deserialize(deserializer).map(|_| ())
}
