//! Signed durations with Go's text form, because configuration and messages use it.

use std::fmt;
use std::str::FromStr;

use super::go_quote::quote_as_time;

/// A signed length of time in nanoseconds, Go's `time.Duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Span(i64);

impl Span {
    pub const ZERO: Self = Self(0);

    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }
}

/// Why a text is not a duration; worded as Go's `time.ParseDuration` does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    #[error("time: invalid duration {}", quote_as_time(.0))]
    Invalid(String),
    #[error("time: missing unit in duration {}", quote_as_time(.0))]
    MissingUnit(String),
    #[error("time: unknown unit {} in duration {}", quote_as_time(.unit), quote_as_time(.text))]
    UnknownUnit { unit: String, text: String },
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let invalid = || SpanError::Invalid(text.to_owned());
        let (negative, magnitude) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        if magnitude == "0" {
            return Ok(Self::ZERO);
        }
        if magnitude.is_empty() {
            return Err(invalid());
        }
        // The most negative duration has no positive twin, so Go collects in u64 up to 2^63.
        const MAX_MAGNITUDE: u64 = 1 << 63;
        let mut total: u64 = 0;
        let mut rest = magnitude;
        while !rest.is_empty() {
            let (nanos, after) = component(rest, text)?;
            total = total
                .checked_add(nanos)
                .filter(|t| *t <= MAX_MAGNITUDE)
                .ok_or_else(invalid)?;
            rest = after;
        }
        if negative {
            return Ok(Self(0i64.wrapping_sub_unsigned(total)));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }
}

/// One `<decimal><unit>` at the start of `rest`, as nanoseconds, and what follows it.
fn component<'a>(rest: &'a str, whole: &str) -> Result<(u64, &'a str), SpanError> {
    let invalid = || SpanError::Invalid(whole.to_owned());
    let (integer_digits, after) = split_digits(rest);
    let (fraction_digits, after) = match after.strip_prefix('.') {
        Some(tail) => split_digits(tail),
        None => ("", after),
    };
    if integer_digits.is_empty() && fraction_digits.is_empty() {
        return Err(invalid());
    }
    let integer = integer_digits
        .bytes()
        .try_fold(0u64, |value, digit| {
            value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .filter(|value| *value <= 1 << 63)
        .ok_or_else(invalid)?;

    let unit_len = after
        .find(|c: char| c == '.' || c.is_ascii_digit())
        .unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_len);
    if unit.is_empty() {
        return Err(SpanError::MissingUnit(whole.to_owned()));
    }
    let unit_nanos = unit_nanos(unit).ok_or_else(|| SpanError::UnknownUnit {
        unit: unit.to_owned(),
        text: whole.to_owned(),
    })?;
    let nanos = integer
        .checked_mul(unit_nanos)
        .and_then(|nanos| nanos.checked_add(fraction_nanos(fraction_digits, unit_nanos)))
        .filter(|nanos| *nanos <= 1 << 63)
        .ok_or_else(invalid)?;
    Ok((nanos, after))
}

fn split_digits(text: &str) -> (&str, &str) {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(len)
}

/// Digits after the point, scaled to the unit. Digits that no longer fit 63 bits are dropped, and
/// the product is a float truncated: both as Go does, so that results agree to the nanosecond.
fn fraction_nanos(digits: &str, unit_nanos: u64) -> u64 {
    let mut value: u64 = 0;
    let mut scale: f64 = 1.0;
    for digit in digits.bytes() {
        let next = value
            .checked_mul(10)
            .and_then(|v| v.checked_add(u64::from(digit - b'0')))
            .filter(|v| *v <= i64::MAX as u64);
        match next {
            Some(next) => value = next,
            None => break,
        }
        scale *= 10.0;
    }
    (value as f64 * (unit_nanos as f64 / scale)) as u64
}

fn unit_nanos(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // Go accepts both the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match magnitude {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{magnitude}ns"),
            1_000..1_000_000 => write!(f, "{}\u{b5}s", decimal(magnitude, 1_000)),
            1_000_000..1_000_000_000 => write!(f, "{}ms", decimal(magnitude, 1_000_000)),
            _ => {
                let minutes = magnitude / 60_000_000_000;
                let seconds = decimal(magnitude % 60_000_000_000, 1_000_000_000);
                match (minutes / 60, minutes % 60) {
                    (0, 0) => write!(f, "{seconds}s"),
                    (0, minutes) => write!(f, "{minutes}m{seconds}s"),
                    (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
                }
            }
        }
    }
}

/// `value / unit` in exact decimal notation without trailing zeros; `unit` is a power of ten.
fn decimal(value: u64, unit: u64) -> String {
    let fraction = value % unit;
    if fraction == 0 {
        return (value / unit).to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{}.{}", value / unit, digits.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_negative_duration_parses_and_prints() {
        let text = "-2562047h47m16.854775808s";
        let span: Span = text.parse().unwrap();
        assert_eq!(span.as_nanos(), i64::MIN);
        assert_eq!(span.to_string(), text);
        assert_eq!(
            text[1..].parse::<Span>(),
            Err(SpanError::Invalid(text[1..].to_owned()))
        );
    }

    #[test]
    fn a_number_too_long_for_64_bits_is_invalid() {
        assert!(matches!(
            "99999999999999999999s".parse::<Span>(),
            Err(SpanError::Invalid(_))
        ));
    }

    #[test]
    fn text_that_is_not_ascii_does_not_split_a_character() {
        assert!(matches!(
            "1\u{e9}s".parse::<Span>(),
            Err(SpanError::UnknownUnit { .. })
        ));
        assert!(matches!(
            "\u{e9}".parse::<Span>(),
            Err(SpanError::Invalid(_))
        ));
    }
}
