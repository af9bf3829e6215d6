//! How far a signal is from a threshold: what the agent arms the kernel side with.

use super::limit::effective_nanos;
use crate::model::{Observation, Operator, Threshold};

const NANOS: i128 = 1_000_000_000;

/// Units (bytes, inodes, tasks) that may still be used until the threshold is met; zero or less when
/// it is met. `None` for placeholders, which are never met.
pub fn to_threshold(threshold: &Threshold, observation: &Observation) -> Option<i64> {
    if threshold.operator == Operator::Never {
        return None;
    }
    let limit = effective_nanos(&threshold.limit, observation.capacity);
    let available = i128::from(observation.available) * NANOS;
    // Equal is not met, hence one unit more than the difference.
    let units = available
        .saturating_sub(limit)
        .div_euclid(NANOS)
        .saturating_add(1);
    Some(units.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Limit, Quantity, Signal};

    fn left(limit: &str, available: i64) -> i64 {
        let limit = Limit::Quantity(limit.parse::<Quantity>().unwrap());
        let observation = Observation {
            available,
            capacity: 1_000,
            time: None,
        };
        to_threshold(
            &Threshold::hard(Signal::MemoryAvailable, limit),
            &observation,
        )
        .unwrap()
    }

    #[test]
    fn one_more_unit_than_the_difference_because_equal_is_not_met() {
        assert_eq!(left("100", 150), 51);
        assert_eq!(left("100", 100), 1);
        assert_eq!(left("100", 99), 0);
        assert_eq!(left("100", 50), -49);
        assert_eq!(left("1500m", 2), 1);
        assert_eq!(left("1500m", 1), 0);
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(left("1e30", i64::MIN), i64::MIN);
        assert_eq!(left("1", i64::MAX), i64::MAX);
    }

    #[test]
    fn a_placeholder_has_no_distance() {
        let limit = Limit::Quantity(Quantity::binary(1));
        let placeholder = Threshold {
            operator: Operator::Never,
            ..Threshold::hard(Signal::PidAvailable, limit)
        };
        let observation = Observation {
            available: 0,
            capacity: 1,
            time: None,
        };
        assert_eq!(to_threshold(&placeholder, &observation), None);
    }
}
