//! The canonical text of a quantity.

use std::cmp::Ordering;

use num_bigint::BigInt;

use super::Format;
use super::amount::{Amount, power_of_ten};

/// The canonical text: no fraction digits, the largest exponent that is a multiple of three, and no
/// binary suffix where it would lose precision.
pub(super) fn canonical(amount: &Amount, format: Format) -> String {
    if amount.sign() == Ordering::Equal {
        return "0".to_owned();
    }
    if format == Format::BinarySi
        && let Some(text) = binary(amount)
    {
        return text;
    }
    let decimal_format = if format == Format::DecimalExponent {
        format
    } else {
        Format::DecimalSi
    };
    let (mantissa, exponent) = match amount {
        Amount::Small { mantissa, scale } => (BigInt::from(*mantissa), i64::from(*scale)),
        Amount::Wide { unscaled, places } => (unscaled.as_ref().clone(), -i64::from(*places)),
    };
    let (mantissa, exponent) = shift_to_thousands(mantissa, exponent);
    match decimal_format {
        Format::DecimalExponent if exponent == 0 => mantissa.to_string(),
        Format::DecimalExponent => format!("{mantissa}e{exponent}"),
        // Above E there is no suffix and the kubelet prints none (fixed after v1.36).
        _ => format!("{mantissa}{}", decimal_suffix(exponent)),
    }
}

/// Text with a binary suffix, if the amount is whole and at least 1024 in size.
fn binary(amount: &Amount) -> Option<String> {
    let nanos = amount.nanos();
    let per_unit = power_of_ten(9);
    let mut whole = &nanos / &per_unit;
    if &whole * &per_unit != nanos || whole.magnitude() < BigInt::from(1024).magnitude() {
        return None;
    }
    let mut power = 0;
    let unit = BigInt::from(1024);
    loop {
        let quotient = &whole / &unit;
        if &quotient * &unit != whole {
            break;
        }
        whole = quotient;
        power += 1;
    }
    const SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    Some(format!(
        "{whole}{}",
        SUFFIXES.get(power).copied().unwrap_or("")
    ))
}

/// Moves factors of ten into the exponent, then back until it is a multiple of three.
fn shift_to_thousands(mut mantissa: BigInt, mut exponent: i64) -> (BigInt, i64) {
    let ten = BigInt::from(10);
    loop {
        let quotient = &mantissa / &ten;
        if &quotient * &ten != mantissa {
            break;
        }
        mantissa = quotient;
        exponent += 1;
    }
    let excess = exponent.rem_euclid(3);
    (mantissa * power_of_ten(excess as u32), exponent - excess)
}

fn decimal_suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}
