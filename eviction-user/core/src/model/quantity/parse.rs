//! The grammar of quantities: `<sign><digits>[.<digits>]<suffix>`.

use std::str::FromStr;
use std::sync::Arc;

use num_bigint::{BigInt, BigUint};

use super::amount::{Amount, divide_away_from_zero, power_of_ten};
use super::{Format, Quantity};

/// Why a text is not a quantity; worded as the kubelet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error(
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
    )]
    Format,
    #[error("unable to parse quantity's suffix")]
    Suffix,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
}

/// Digits that surely fit the 64-bit form.
const MAX_FAST_DIGITS: i32 = 18;
/// Exponents beyond this only make sense in the 64-bit form, which does not expand them.
const MAX_WIDE_EXPONENT: i32 = 1_000;

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let parts = Parts::split(text)?;
        let suffix = Suffix::read(parts.suffix)?;
        match small(&parts, suffix)? {
            Some((amount, keeps_spelling)) => Ok(Self {
                amount,
                format: suffix.format(),
                spelling: keeps_spelling.then(|| Arc::from(text)),
            }),
            None => wide(&parts, suffix),
        }
    }
}

/// A quantity's text, taken apart.
struct Parts<'a> {
    negative: bool,
    /// Digits before the point, without leading zeros; "0" if none are left.
    integer: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    has_digits: bool,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let unpadded = rest.trim_start_matches('0');
        let (integer, after) = split_while(unpadded, |b| b.is_ascii_digit());
        let (fraction, suffix) = match after.strip_prefix('.') {
            Some(tail) => split_while(tail, |b| b.is_ascii_digit()),
            None => ("", after),
        };
        let has_digits = unpadded.len() < rest.len() || !integer.is_empty() || !fraction.is_empty();

        let (_, exponent) = split_while(suffix, |b| b"eEinumkKMGTP".contains(&b));
        let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        if !exponent.bytes().all(|b| b.is_ascii_digit()) {
            return Err(QuantityError::Format);
        }
        let integer = if integer.is_empty() { "0" } else { integer };
        Ok(Self {
            negative,
            integer,
            fraction,
            suffix,
            has_digits,
        })
    }
}

fn split_while(text: &str, keep: impl Fn(u8) -> bool) -> (&str, &str) {
    text.split_at(text.bytes().take_while(|b| keep(*b)).count())
}

#[derive(Clone, Copy)]
enum Suffix {
    Decimal { exponent: i32 },
    Exponent { exponent: i32 },
    Binary { shift: u32 },
}

impl Suffix {
    fn read(text: &str) -> Result<Self, QuantityError> {
        let decimal = |exponent| Ok(Self::Decimal { exponent });
        let binary = |shift| Ok(Self::Binary { shift });
        match text {
            "n" => decimal(-9),
            "u" => decimal(-6),
            "m" => decimal(-3),
            "" => decimal(0),
            "k" => decimal(3),
            "M" => decimal(6),
            "G" => decimal(9),
            "T" => decimal(12),
            "P" => decimal(15),
            "E" => decimal(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let digits = text.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
                let exponent = digits.parse().map_err(|_| QuantityError::Suffix)?;
                Ok(Self::Exponent { exponent })
            }
        }
    }

    const fn format(self) -> Format {
        match self {
            Self::Decimal { .. } => Format::DecimalSi,
            Self::Exponent { .. } => Format::DecimalExponent,
            Self::Binary { .. } => Format::BinarySi,
        }
    }
}

/// The 64-bit form, if the digits surely fit, and whether the text is already canonical enough for
/// the kubelet to print it again as it was.
fn small(parts: &Parts<'_>, suffix: Suffix) -> Result<Option<(Amount, bool)>, QuantityError> {
    let integer_digits = i32::try_from(parts.integer.len()).unwrap_or(i32::MAX);
    let fraction_digits = i32::try_from(parts.fraction.len()).unwrap_or(i32::MAX);
    let (multiplier, exponent, room) = match suffix {
        Suffix::Decimal { exponent } | Suffix::Exponent { exponent } => (
            1,
            exponent,
            MAX_FAST_DIGITS.saturating_sub(integer_digits.saturating_add(fraction_digits)),
        ),
        Suffix::Binary { shift } if fraction_digits == 0 => {
            let suffix_digits = (shift * 3 / 10) as i32;
            (
                1i64 << shift,
                0,
                14i32
                    .saturating_sub(integer_digits)
                    .saturating_sub(suffix_digits),
            )
        }
        Suffix::Binary { .. } => return Ok(None),
    };
    let scale = exponent.saturating_sub(fraction_digits);
    if room < 0 || scale < -9 {
        return Ok(None);
    }
    let digits = [parts.integer, parts.fraction].concat();
    let number: i64 = digits.parse().map_err(|_| QuantityError::Numeric)?;
    let Some(magnitude) = number.checked_mul(multiplier) else {
        return Ok(None);
    };
    let mantissa = if parts.negative {
        -magnitude
    } else {
        magnitude
    };
    let keeps_spelling = match suffix {
        Suffix::Binary { .. } => number & 7 != 0,
        Suffix::Decimal { .. } | Suffix::Exponent { .. } => {
            scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
        }
    };
    Ok(Some((Amount::Small { mantissa, scale }, keeps_spelling)))
}

/// The unbounded form: rounded up to whole nanos, and capped when binary.
fn wide(parts: &Parts<'_>, suffix: Suffix) -> Result<Quantity, QuantityError> {
    if !parts.has_digits {
        return Err(QuantityError::Numeric);
    }
    let digits = [parts.integer, parts.fraction].concat();
    let magnitude = BigUint::parse_bytes(digits.as_bytes(), 10).ok_or(QuantityError::Numeric)?;
    let fraction_digits =
        i32::try_from(parts.fraction.len()).map_err(|_| QuantityError::Numeric)?;
    let (shift, exponent) = match suffix {
        Suffix::Decimal { exponent } | Suffix::Exponent { exponent } => (0, exponent),
        Suffix::Binary { shift } => (shift, 0),
    };
    if exponent > MAX_WIDE_EXPONENT {
        return Err(QuantityError::Numeric);
    }
    let magnitude = BigInt::from(magnitude << shift);
    let nano_exponent = exponent.saturating_sub(fraction_digits).saturating_add(9);
    let nanos = match u32::try_from(nano_exponent) {
        Ok(exponent) => magnitude * power_of_ten(exponent),
        Err(_) if nano_exponent.unsigned_abs() > digits.len() as u32 => {
            BigInt::from(u8::from(magnitude != BigInt::ZERO))
        }
        Err(_) => divide_away_from_zero(&magnitude, &power_of_ten(nano_exponent.unsigned_abs())),
    };
    let mut format = suffix.format();
    if format == Format::BinarySi {
        if nanos > BigInt::from(i64::MAX) * power_of_ten(9) {
            return Ok(Quantity {
                amount: Amount::binary_cap(parts.negative),
                format,
                spelling: None,
            });
        }
        if nanos < power_of_ten(9) && nanos > BigInt::ZERO {
            format = Format::DecimalSi;
        }
    }
    let nanos = if parts.negative { -nanos } else { nanos };
    Ok(Quantity {
        amount: Amount::from_wide_nanos(nanos),
        format,
        spelling: None,
    })
}
