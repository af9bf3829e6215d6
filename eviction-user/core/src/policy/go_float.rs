//! Go's `strconv.ParseFloat(text, 32)`, which the kubelet reads percentages with.

use crate::model::go_quote::quote_as_strconv;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FloatError {
    #[error("strconv.ParseFloat: parsing {}: invalid syntax", quote_as_strconv(.0))]
    Syntax(String),
    #[error("strconv.ParseFloat: parsing {}: value out of range", quote_as_strconv(.0))]
    Range(String),
}

/// Decimal and hexadecimal floats, `Inf` and `NaN` in any case, `_` between digits.
pub(super) fn parse_f32(text: &str) -> Result<f32, FloatError> {
    let syntax = || FloatError::Syntax(text.to_owned());
    if let Some(special) = special(text) {
        return Ok(special);
    }
    let digits = without_underscores(text).ok_or_else(syntax)?;
    let (sign, magnitude) = match digits.as_bytes().first() {
        Some(b'-') => (-1.0, &digits[1..]),
        Some(b'+') => (1.0, &digits[1..]),
        _ => (1.0, &digits[..]),
    };
    let value = match magnitude
        .strip_prefix("0x")
        .or_else(|| magnitude.strip_prefix("0X"))
    {
        Some(hexadecimal) => parse_hexadecimal(hexadecimal),
        None => parse_decimal(magnitude),
    };
    let value = value.ok_or_else(syntax)?;
    if value.is_infinite() {
        return Err(FloatError::Range(text.to_owned()));
    }
    Ok(sign * value)
}

/// `Inf` and `Infinity` may carry a sign, `NaN` may not.
fn special(text: &str) -> Option<f32> {
    let lower = text.to_ascii_lowercase();
    match lower.as_str() {
        "nan" => Some(f32::NAN),
        "inf" | "+inf" | "infinity" | "+infinity" => Some(f32::INFINITY),
        "-inf" | "-infinity" => Some(f32::NEG_INFINITY),
        _ => None,
    }
}

/// Removes underscores where Go's literal syntax allows them: between digits, and after `0x`.
fn without_underscores(text: &str) -> Option<String> {
    if !text.contains('_') {
        return Some(text.to_owned());
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_hexadecimal = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    let mut rest = if is_hexadecimal {
        &unsigned[2..]
    } else {
        unsigned
    };
    let mut after_digit = is_hexadecimal;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        let is_digit = c.is_ascii_digit() || (is_hexadecimal && c.is_ascii_hexdigit());
        if c == '_' {
            let before_digit = rest.chars().next().is_some_and(|next| {
                next.is_ascii_digit() || (is_hexadecimal && next.is_ascii_hexdigit())
            });
            if !(after_digit && before_digit) {
                return None;
            }
        }
        after_digit = is_digit;
    }
    Some(text.replace('_', ""))
}

/// Digits with an optional point and exponent. Rust's parser rounds correctly, as Go's does, but
/// also knows words that are no numbers here.
fn parse_decimal(text: &str) -> Option<f32> {
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
    let starts_as_number = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if plain && starts_as_number {
        text.parse().ok()
    } else {
        None
    }
}

/// `<hex digits>[.<hex digits>]p<exponent>`; the exponent is mandatory.
fn parse_hexadecimal(text: &str) -> Option<f32> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let exponent_digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if exponent_digits.is_empty() || !exponent_digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    // Beyond this every number is zero or infinite; a sum with digit counts cannot overflow.
    const FAR: i64 = 1 << 40;
    let magnitude = exponent_digits.trim_start_matches('0');
    let magnitude = if magnitude.len() > 10 {
        FAR
    } else {
        format!("0{magnitude}").parse().ok()?
    };
    let mut exponent = if exponent.starts_with('-') {
        -magnitude
    } else {
        magnitude
    };

    // 52 bits hold the leading digits; what is cut off leaves a sticky bit, enough to round once.
    let mut bits: u64 = 0;
    let mut sticky = false;
    for (is_fraction, digit) in integer
        .chars()
        .map(|c| (false, c))
        .chain(fraction.chars().map(|c| (true, c)))
    {
        let digit = digit.to_digit(16)?;
        if bits < 1 << 48 {
            bits = bits << 4 | u64::from(digit);
            exponent -= if is_fraction { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            exponent += if is_fraction { 0 } else { 4 };
        }
    }
    if bits == 0 {
        return Some(0.0);
    }
    let exact = ((bits << 1) | u64::from(sticky)) as f64;
    let exponent = (exponent - 1).clamp(-900, 900) as u64;
    let power = f64::from_bits(1023u64.wrapping_add(exponent) << 52);
    Some((exact * power) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_go_accepts() {
        let table = [
            ("10", 10.0),
            ("+.5", 0.5),
            ("5.", 5.0),
            ("1e2", 100.0),
            ("0x1p-2", 0.25),
            ("0X_1.8p1", 3.0),
            ("0x1.000001p0", 1.0),
            ("0x1.0000011p0", 1.000_000_1),
            ("1_0.0_1", 10.01),
            ("1e-400", 0.0),
            ("0x1p-149", f32::from_bits(1)),
            ("0x1p-150", 0.0),
            ("0x1.8p-150", f32::from_bits(1)),
            ("iNf", f32::INFINITY),
            ("-Infinity", f32::NEG_INFINITY),
        ];
        for (text, value) in table {
            assert_eq!(parse_f32(text), Ok(value), "{text}");
        }
        assert!(parse_f32("nAN").unwrap().is_nan());
        assert!(parse_f32("-0").unwrap().is_sign_negative());
    }

    #[test]
    fn refuses_what_go_refuses() {
        let texts = [
            "", " 1", "1 ", "x", "+", ".", "1e", "0x1", "0xp1", "0x1p", "_1", "1__0", "1_", "1_.0",
            "1._0", "+nan", "--1", "infinit", "0_x1p1", "1e_1", "\u{ff11}",
        ];
        for text in texts {
            assert_eq!(
                parse_f32(text),
                Err(FloatError::Syntax(text.to_owned())),
                "{text}"
            );
        }
    }

    #[test]
    fn too_large_numbers_are_out_of_range() {
        for text in ["1e40", "0x1p128", "0x1p99999999999999999999"] {
            assert_eq!(
                parse_f32(text),
                Err(FloatError::Range(text.to_owned())),
                "{text}"
            );
        }
    }
}
