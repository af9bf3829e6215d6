//! From a configured limit to an amount.

use crate::model::{Limit, Quantity};

/// The amount a limit stands for on a node of this capacity.
pub fn effective(limit: &Limit, capacity: i64) -> Quantity {
    match limit {
        Limit::Quantity(quantity) => quantity.clone(),
        Limit::Percentage(fraction) => Quantity::binary(part_of(capacity, *fraction)),
    }
}

/// The same amount in billionths of a unit, without allocating.
pub fn effective_nanos(limit: &Limit, capacity: i64) -> i128 {
    match limit {
        Limit::Quantity(quantity) => quantity.nanos(),
        Limit::Percentage(fraction) => i128::from(part_of(capacity, *fraction)) * 1_000_000_000,
    }
}

/// `capacity * fraction`, truncated. The fraction is widened from 32 bits first, so that the last
/// digits agree with the kubelet's; what does not fit becomes the minimum, as amd64 converts it.
fn part_of(capacity: i64, fraction: f32) -> i64 {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    let product = capacity as f64 * f64::from(fraction);
    if (-TWO_TO_63..TWO_TO_63).contains(&product) {
        product as i64
    } else {
        i64::MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_a_number_and_overflow_become_the_minimum_as_on_amd64() {
        assert_eq!(part_of(1_000, f32::NAN), i64::MIN);
        assert_eq!(part_of(i64::MAX, 1.5), i64::MIN);
        assert_eq!(part_of(i64::MIN, 1.0), i64::MIN);
        assert_eq!(part_of(i64::MAX, 1.0), i64::MIN);
    }

    #[test]
    fn both_forms_agree() {
        for limit in [
            Limit::Percentage(0.1),
            Limit::Quantity(Quantity::binary(100)),
        ] {
            assert_eq!(
                effective(&limit, 1_000_003).nanos(),
                effective_nanos(&limit, 1_000_003)
            );
        }
    }
}
