//! Quantities and durations.

use std::cmp::Ordering;

use eviction_core::model::quantity::Format;
use eviction_core::model::{Quantity, Span};
use serde::Deserialize;
use serde_json::Value;

use crate::check::{Mismatch, read, same};

#[derive(Deserialize)]
struct Text {
    s: String,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum QuantityOut {
    Error {
        error: String,
    },
    Value {
        canonical: String,
        value: i64,
        milli: i64,
        sign: i32,
        is_zero: bool,
        format: String,
    },
}

fn sign(order: Ordering) -> i32 {
    order as i32
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::DecimalExponent => "DecimalExponent",
        Format::BinarySi => "BinarySI",
        Format::DecimalSi => "DecimalSI",
    }
}

pub(crate) fn quantity(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let ours = match read::<Text>(input)?.s.parse::<Quantity>() {
        Err(error) => QuantityOut::Error {
            error: error.to_string(),
        },
        Ok(quantity) => QuantityOut::Value {
            canonical: quantity.to_string(),
            value: quantity.value(),
            milli: quantity.milli_value(),
            sign: sign(quantity.sign()),
            is_zero: quantity.is_zero(),
            format: format_name(quantity.format()).to_owned(),
        },
    };
    same("quantity", &ours, &read(output)?)
}

#[derive(Deserialize)]
struct Pair {
    a: i64,
    b: i64,
    format: String,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PairOut {
    a: String,
    b: String,
    sum: String,
    sum_v: i64,
    diff: String,
    diff_v: i64,
    cmp: i32,
}

pub(crate) fn quantity_format(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let pair: Pair = read(input)?;
    let formats = [Format::DecimalExponent, Format::BinarySi, Format::DecimalSi];
    let format = formats
        .into_iter()
        .find(|format| format_name(*format) == pair.format);
    let format = format.unwrap_or_else(|| panic!("recorded format {:?}", pair.format));
    let (a, b) = (Quantity::new(pair.a, format), Quantity::new(pair.b, format));
    let (sum, diff) = (a.plus(&b), a.minus(&b));
    let ours = PairOut {
        a: a.to_string(),
        b: b.to_string(),
        sum: sum.to_string(),
        sum_v: sum.value(),
        diff: diff.to_string(),
        diff_v: diff.value(),
        cmp: sign(a.cmp(&b)),
    };
    same("quantities", &ours, &read(output)?)
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum DurationOut {
    Error { error: String },
    Value { ns: i64, string: String },
}

pub(crate) fn duration(input: &Value, output: &Value) -> Result<(), Mismatch> {
    let ours = match read::<Text>(input)?.s.parse::<Span>() {
        Err(error) => DurationOut::Error {
            error: error.to_string(),
        },
        Ok(span) => DurationOut::Value {
            ns: span.as_nanos(),
            string: span.to_string(),
        },
    };
    same("duration", &ours, &read(output)?)
}
