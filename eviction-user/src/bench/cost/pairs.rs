//! The same loop with and without hooks, side by side in time, so that what drifts hits both alike.

use super::switch::Switch;
use super::{Bench, Work};
use crate::bench::stats::{Median, Sorted};
use crate::bench::{BenchError, Stop};
use crate::sys::cgroup::Hierarchy;
use crate::sys::distant::Opening;

/// Where programs, maps and the loop's own pages happen to lie in memory can make two percent for as long as they are there (4 KiB
/// writes, ext4, Linux 6.18): after so many pairs all of them are made anew, so that a ratio is that of many places.
const PAIRS_IN_ONE_PLACE: u64 = 25;

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
    hierarchy: &Hierarchy,
    stop: &Stop,
) -> Result<Vec<Pairs>, BenchError> {
    let settings = bench.settings;
    let files = Opening::start(&settings.directory).wait()?;
    let fresh = || Switch::new(&files, hierarchy, settings.attach.clone());
    let works = settings.works.iter();
    works
        .map(|work| of_work(bench, &fresh, *work, stop))
        .collect()
}

fn of_work(
    bench: &mut Bench<'_>,
    fresh: &dyn Fn() -> Result<Switch, BenchError>,
    work: Work,
    stop: &Stop,
) -> Result<Pairs, BenchError> {
    let count = bench.calibrate(work)?;
    let mut switch = fresh()?;
    let (mut plain, mut ratios) = (Vec::new(), Vec::new());
    for pair in 0..bench.settings.pairs {
        stop.check()?;
        if pair > 0 && pair % PAIRS_IN_ONE_PLACE == 0 {
            switch = fresh()?;
            bench.start_worker()?;
            bench.time(work, count)?;
        }
        // Whichever comes second finds warmer caches and fuller directories: each does so half of the time.
        let (without, with) = if pair % 2 == 0 {
            let without = bench.half(work, count)?;
            (without, watched(bench, &mut switch, work, count)?)
        } else {
            let with = watched(bench, &mut switch, work, count)?;
            (bench.half(work, count)?, with)
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

fn watched(
    bench: &mut Bench<'_>,
    switch: &mut Switch,
    work: Work,
    count: u64,
) -> Result<f64, BenchError> {
    switch.on()?;
    let took = bench.half(work, count);
    switch.off()?;
    took
}
