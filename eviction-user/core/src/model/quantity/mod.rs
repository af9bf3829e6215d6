//! Kubernetes quantities: exact amounts down to a billionth, with the text form they came in.
//!
//! Behaviour recorded from `k8s.io/apimachinery/pkg/api/resource` (v1.36): which texts keep their
//! spelling, how values round and where 64-bit results wrap.

mod amount;
#[cfg(feature = "serde")]
mod exact;
mod format;
mod parse;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use amount::Amount;
pub use parse::QuantityError;

/// How a quantity is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Format {
    /// 12e6
    DecimalExponent,
    /// 12Mi
    BinarySi,
    /// 12M
    #[default]
    DecimalSi,
}

/// An exact amount. Equality and order are by value; format and spelling only matter to `Display`.
#[derive(Debug, Clone)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The text it was parsed from, kept only where the kubelet would print that text again.
    spelling: Option<Arc<str>>,
}

impl Quantity {
    pub const fn new(value: i64, format: Format) -> Self {
        Self {
            amount: Amount::integer(value),
            format,
            spelling: None,
        }
    }

    /// Bytes as the kubelet counts them.
    pub const fn binary(value: i64) -> Self {
        Self::new(value, Format::BinarySi)
    }

    /// Counts of things as the kubelet counts them.
    pub const fn decimal(value: i64) -> Self {
        Self::new(value, Format::DecimalSi)
    }

    pub const fn zero() -> Self {
        Self::decimal(0)
    }

    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whole units, rounded away from zero. Wraps beyond 64 bits the way the kubelet's does.
    pub fn value(&self) -> i64 {
        self.amount.scaled(0)
    }

    /// Thousandths, rounded away from zero. Wraps beyond 64 bits the way the kubelet's does.
    pub fn milli_value(&self) -> i64 {
        self.amount.scaled(3)
    }

    /// Billionths, exact up to 1.7e29 units and saturating beyond: cheap to compare and subtract,
    /// and still exact when compared with anything that fits 64 bits.
    pub fn nanos(&self) -> i128 {
        self.amount.nanos_saturating()
    }

    pub fn sign(&self) -> Ordering {
        self.amount.sign()
    }

    pub fn is_zero(&self) -> bool {
        self.sign() == Ordering::Equal
    }

    /// The sum; a zero left side takes over the right side's format.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Self {
            amount: self.amount.plus(&other.amount),
            format,
            spelling: None,
        }
    }

    /// The difference; a zero left side takes over the right side's format.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let format = if self.is_zero() {
            other.format
        } else {
            self.format
        };
        Self {
            amount: self.amount.plus(&other.amount.negated()),
            format,
            spelling: None,
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.spelling {
            Some(text) => f.pad(text),
            None => f.pad(&format::canonical(&self.amount, self.format)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q(text: &str) -> Quantity {
        text.parse().unwrap()
    }

    #[test]
    fn amounts_beyond_64_bits_compare_and_add_exactly() {
        let huge = q("8205114663092462890T");
        assert_eq!(huge.minus(&huge).sign(), Ordering::Equal);
        assert_eq!(huge.plus(&q("1n")).cmp(&huge), Ordering::Greater);
        assert_eq!(huge.plus(&q("1n")).minus(&huge).to_string(), "1n");
        assert_eq!(huge.nanos(), i128::MAX);
    }

    #[test]
    fn exponents_without_bound_neither_hang_nor_overflow() {
        let big = q("1e2147483647");
        let small = q("1e-2147483648");
        assert!(big > q("9223372036854775807"));
        assert!(small > Quantity::zero());
        assert_eq!(small.value(), 1);
        assert!(matches!(
            "12345678901234567890e2000000000".parse::<Quantity>(),
            Err(QuantityError::Numeric)
        ));
        assert!(big.plus(&small) > q("1E"));
    }

    #[test]
    fn equality_ignores_spelling() {
        assert_eq!(q("1024Ki"), q("1Mi"));
        assert_eq!(q("1e3"), q("1k"));
        assert_ne!(q("1k"), q("1Ki"));
    }
}
