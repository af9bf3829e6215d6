//! A limit on a signal.

use super::quantity::Quantity;
use super::signal::Signal;
use super::span::Span;

/// How much of a signal: an absolute amount or a part of the capacity.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Limit {
    Quantity(Quantity),
    /// A fraction (0.1 = 10 %). The kubelet keeps it in 32 bits, and the last digits of computed
    /// limits depend on that.
    Percentage(f32),
}

/// Limits are the same when quantities agree by value or fractions agree exactly (NaN never does).
impl PartialEq for Limit {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Quantity(a), Self::Quantity(b)) => a == b,
            (Self::Percentage(a), Self::Percentage(b)) => a == b,
            _ => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Operator {
    LessThan,
    /// The placeholder that the containerfs rewriting leaves where its source has no threshold.
    Never,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Threshold {
    pub signal: Signal,
    pub operator: Operator,
    pub limit: Limit,
    /// How long the threshold must stay met. Zero makes it a *hard* threshold.
    pub grace: Span,
    pub min_reclaim: Option<Limit>,
}

impl Threshold {
    pub fn hard(signal: Signal, limit: Limit) -> Self {
        Self {
            signal,
            operator: Operator::LessThan,
            limit,
            grace: Span::ZERO,
            min_reclaim: None,
        }
    }

    pub fn soft(signal: Signal, limit: Limit, grace: Span) -> Self {
        Self {
            grace,
            ..Self::hard(signal, limit)
        }
    }

    pub const fn is_hard(&self) -> bool {
        self.grace.is_zero()
    }

    /// Whether two thresholds ask for the same thing; the minimum reclaim is not compared.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.signal == other.signal
            && self.operator == other.operator
            && self.grace == other.grace
            && self.limit == other.limit
    }
}
