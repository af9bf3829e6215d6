//! A quantity in a recording: the number in the very form it has here, because 64-bit results of
//! huge amounts depend on the form, and the spelling, because messages quote it.

use std::sync::Arc;

use num_bigint::BigInt;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::amount::Amount;
use super::{Format, Quantity};

#[derive(Serialize, Deserialize)]
struct Exact {
    amount: ExactAmount,
    format: Format,
    spelling: Option<Arc<str>>,
}

#[derive(Serialize, Deserialize)]
enum ExactAmount {
    Small(i64, i32),
    /// Decimal digits, and how many of them are behind the point.
    Wide(String, u32),
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let amount = match &self.amount {
            Amount::Small { mantissa, scale } => ExactAmount::Small(*mantissa, *scale),
            Amount::Wide { unscaled, places } => ExactAmount::Wide(unscaled.to_string(), *places),
        };
        Exact {
            amount,
            format: self.format,
            spelling: self.spelling.clone(),
        }
        .serialize(to)
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let exact = Exact::deserialize(from)?;
        let amount = match exact.amount {
            ExactAmount::Small(mantissa, scale) => Amount::Small { mantissa, scale },
            ExactAmount::Wide(digits, places) => {
                if !Amount::WIDE_PLACES.contains(&places) {
                    return Err(D::Error::custom(format_args!(
                        "{places} decimal places: not a form of a quantity"
                    )));
                }
                let unscaled: BigInt = digits.parse().map_err(D::Error::custom)?;
                Amount::Wide {
                    unscaled: Box::new(unscaled),
                    places,
                }
            }
        };
        Ok(Self {
            amount,
            format: exact.format,
            spelling: exact.spelling,
        })
    }
}
