//! What many measurements come down to: percentiles of latencies, the median of ratios with its interval. Pure.

/// Measurements in order of size.
#[derive(Debug, Clone, PartialEq)]
pub struct Sorted(Vec<f64>);

/// A median and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Median {
    pub value: f64,
    /// The 95 % interval from order statistics, which assumes nothing about the distribution. `None` below six
    /// measurements: not even their whole range is that sure.
    pub interval: Option<(f64, f64)>,
}

impl Sorted {
    pub fn new(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The smallest measurement that at least `percent` of all do not exceed (nearest rank): always a measured one.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let rank = (percent / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.max(1) - 1).copied()
    }

    pub fn max(&self) -> Option<f64> {
        self.0.last().copied()
    }

    pub fn median(&self) -> Option<Median> {
        let (low, high) = (self.0.len().checked_sub(1)? / 2, self.0.len() / 2);
        Some(Median {
            value: f64::midpoint(self.0[low], self.0[high]),
            interval: outer_rank(self.0.len())
                .map(|rank| (self.0[rank - 1], self.0[self.0.len() - rank])),
        })
    }
}

/// The highest rank that the true median lies below with a probability of at most 2.5 %: how many of `n` measurements lie
/// below it is binomial with p = 1/2.
fn outer_rank(n: usize) -> Option<usize> {
    // By its logarithm: 0.5 to the power of n is nothing at all from 1,075 measurements on.
    let mut term = n as f64 * 0.5_f64.ln();
    let mut below = 0.0;
    let mut rank = 0;
    while below + term.exp() <= 0.025 && rank < n / 2 {
        below += term.exp();
        term += ((n - rank) as f64 / (rank + 1) as f64).ln();
        rank += 1;
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(n: u32) -> Sorted {
        Sorted::new((1..=n).rev().map(f64::from).collect())
    }

    #[test]
    fn percentiles_are_measured_values_by_nearest_rank() {
        let thousand = up_to(1000);
        for (percent, value) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0), (100.0, 1000.0)] {
            assert_eq!(thousand.percentile(percent), Some(value), "{percent}");
        }
        assert_eq!(up_to(3).percentile(99.0), Some(3.0));
        assert_eq!(up_to(1).percentile(0.0), Some(1.0));
        assert_eq!(up_to(0).percentile(50.0), None);
        assert_eq!((thousand.max(), up_to(0).max()), (Some(1000.0), None));
    }

    #[test]
    fn a_median_lies_in_the_middle_of_even_and_odd_counts() {
        let medians: Vec<_> = [1, 2, 5].map(|n| up_to(n).median().unwrap().value).into();
        assert_eq!(medians, [1.0, 1.5, 3.0]);
        assert_eq!(up_to(0).median(), None);
    }

    /// Ranks as printed in tables of the sign test.
    #[test]
    fn the_interval_has_the_ranks_of_the_sign_test() {
        for (n, ranks) in [
            (5, None),
            (6, Some((1.0, 6.0))),
            (15, Some((4.0, 12.0))),
            (20, Some((6.0, 15.0))),
            (25, Some((8.0, 18.0))),
            (100, Some((40.0, 61.0))),
            // By exact sums of binomials: the first terms are smaller than any double.
            (2001, Some((957.0, 1045.0))),
            (3001, Some((1447.0, 1555.0))),
        ] {
            assert_eq!(up_to(n).median().unwrap().interval, ranks, "{n}");
        }
    }
}
