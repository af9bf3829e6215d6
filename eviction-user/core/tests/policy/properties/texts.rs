//! Laws of the texts that users write.

use std::cmp::Ordering;

use eviction_core::model::quantity::Format;
use eviction_core::model::{Limit, Observation, Quantity, Signal, Span, Threshold};
use eviction_core::policy::thresholds::parse::{ThresholdTexts, parse};
use eviction_core::policy::{distance, thresholds};
use proptest::prelude::*;
use proptest::sample::select;

use super::generate::signed_amount;

fn formats() -> impl Strategy<Value = Format> {
    select(vec![
        Format::BinarySi,
        Format::DecimalSi,
        Format::DecimalExponent,
    ])
}

proptest! {
    #[test]
    fn a_quantity_reads_back_from_its_own_text(value in signed_amount(), format in formats()) {
        let quantity = Quantity::new(value, format);
        let read: Quantity = quantity.to_string().parse().unwrap();
        // The parser caps binary quantities one short of the most negative one.
        let capped = Quantity::new(value.max(-i64::MAX), format);
        prop_assert_eq!(&read, if format == Format::BinarySi { &capped } else { &quantity });
        prop_assert_eq!(quantity.value(), value);
    }

    #[test]
    fn sums_and_differences_undo_each_other(a in signed_amount(), b in signed_amount(), format in formats()) {
        let (a, b) = (Quantity::new(a, format), Quantity::new(b, format));
        prop_assert_eq!(&a.plus(&b).minus(&b), &a);
        prop_assert_eq!(a.minus(&b).sign(), a.cmp(&b));
    }

    #[test]
    fn a_duration_reads_back_from_its_own_text(nanos in any::<i64>()) {
        let span = Span::from_nanos(nanos);
        prop_assert_eq!(span.to_string().parse::<Span>(), Ok(span));
    }

    #[test]
    fn no_text_makes_a_parser_panic(
        text in prop_oneof!["\\PC{0,12}", "[-+]?[0-9._]{0,24}[a-zA-Z%]{0,3}[-+]?[0-9]{0,12}"],
        signal in "[a-zA-Z.]{0,8}",
    ) {
        for name in [signal.as_str(), "memory.available"] {
            let entry = || [(name.to_owned(), text.clone())].into();
            for texts in [
                ThresholdTexts { hard: entry(), ..ThresholdTexts::default() },
                ThresholdTexts { soft: entry(), ..ThresholdTexts::default() },
                ThresholdTexts { soft_grace: entry(), ..ThresholdTexts::default() },
                ThresholdTexts { min_reclaim: entry(), ..ThresholdTexts::default() },
            ] {
                match parse(&texts) {
                    Ok(thresholds) => prop_assert!(thresholds.len() <= 1),
                    Err(error) => prop_assert!(!error.to_string().is_empty()),
                }
            }
        }
    }

    #[test]
    fn the_distance_is_the_use_that_makes_a_threshold_met(
        limit in signed_amount(),
        available in signed_amount(),
        capacity in signed_amount(),
    ) {
        let threshold = Threshold::hard(Signal::MemoryAvailable, Limit::Quantity(Quantity::binary(limit)));
        let met = |available| thresholds::is_met(&threshold, &Observation { available, capacity, time: None });
        let left = distance::to_threshold(&threshold, &Observation { available, capacity, time: None }).unwrap();
        prop_assert_eq!(met(available), left <= 0);
        prop_assert_eq!(met(available), Quantity::binary(available).cmp(&Quantity::binary(limit)) == Ordering::Less);
        // Beyond 64 bits the distance saturates.
        if let Some(there) = available.checked_sub(left)
            && left.unsigned_abs() < i64::MAX.unsigned_abs()
        {
            prop_assert!(met(there));
            prop_assert!(there == i64::MAX || !met(there + 1));
        }
    }
}
