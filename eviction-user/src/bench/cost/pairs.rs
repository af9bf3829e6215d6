//! The same loop with and without hooks, side by side in time, so that what drifts hits both alike.

use super::switch::Switch;
use super::{Bench, Work};
use crate::bench::stats::{Median, Sorted};
use crate::bench::{BenchError, Stop};
use crate::sys::cgroup::Hierarchy;
use crate::sys::distant::Opening;

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
    let mut switch = Switch::new(&files, hierarchy, settings.attach.clone())?;
    let works = settings.works.iter();
    works
        .map(|work| of_work(bench, &mut switch, *work, stop))
        .collect()
}

fn of_work(
    bench: &mut Bench<'_>,
    switch: &mut Switch,
    work: Work,
    stop: &Stop,
) -> Result<Pairs, BenchError> {
    let count = bench.calibrate(work)?;
    let (mut plain, mut ratios) = (Vec::new(), Vec::new());
    for pair in 0..bench.settings.pairs {
        stop.check()?;
        // Whichever comes second finds warmer caches and fuller directories: each does so half of the time.
        let (without, with) = if pair % 2 == 0 {
            let without = bench.half(work, count)?;
            (without, watched(bench, switch, work, count)?)
        } else {
            let with = watched(bench, switch, work, count)?;
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
