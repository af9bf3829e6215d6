//! The same loop with and without hooks, side by side in time, so that what drifts hits both alike.

use super::{Bench, Work};
use crate::bench::stats::{Median, Sorted};
use crate::bench::{BenchError, Stop};

/// One kind of work, measured in pairs.
#[derive(Debug)]
pub struct Pairs {
    pub work: Work,
    /// Operations in each loop.
    pub count: u64,
    /// Nanoseconds for one operation without hooks: the median.
    pub plain_ns: f64,
    /// Time with hooks, divided by the time without them: the ratio of each pair.
    pub ratios: Sorted,
}

impl Pairs {
    /// The median of the ratios.
    pub fn ratio(&self) -> Option<Median> {
        self.ratios.median()
    }
}

pub(super) fn measure(
    bench: &mut Bench<'_>,
    pairs: u64,
    stop: &Stop,
) -> Result<Vec<Pairs>, BenchError> {
    Work::ALL
        .into_iter()
        .map(|work| of_work(bench, work, pairs, stop))
        .collect()
}

fn of_work(
    bench: &mut Bench<'_>,
    work: Work,
    pairs: u64,
    stop: &Stop,
) -> Result<Pairs, BenchError> {
    let count = bench.calibrate(work)?;
    let (mut plain, mut ratios) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        stop.check()?;
        // Whichever comes second finds warmer caches and fuller directories: each does so half of the time.
        let (without, with) = if pair % 2 == 0 {
            let without = bench.fastest(work, count)?;
            (without, watched(bench, work, count)?)
        } else {
            let with = watched(bench, work, count)?;
            (bench.fastest(work, count)?, with)
        };
        plain.push(without / count as f64);
        ratios.push(with / without);
    }
    Ok(Pairs {
        work,
        count,
        plain_ns: Sorted::new(plain)
            .median()
            .map_or(0.0, |median| median.value),
        ratios: Sorted::new(ratios),
    })
}

fn watched(bench: &mut Bench<'_>, work: Work, count: u64) -> Result<f64, BenchError> {
    let _product = bench.armed(&bench.settings.run_args)?;
    bench.fastest(work, count)
}
