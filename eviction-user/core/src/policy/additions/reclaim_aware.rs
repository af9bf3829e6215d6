//! A memory figure that does not take reclaimable page cache for use (user cases 14 and 15).

use super::super::observe;
use crate::model::{Observations, Signal, Summary};

/// Which figure `memory.available` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryFigure {
    /// Capacity minus working set, which counts active page cache as used.
    #[default]
    Kubelet,
    /// The same plus the page cache that could be reclaimed, as far as it was measured.
    ReclaimAware,
}

impl MemoryFigure {
    pub fn observe(self, summary: &Summary) -> Observations {
        let mut observations = observe::observations(summary);
        if self == Self::ReclaimAware
            && let Some(cache) = summary.reclaimable_cache
            && let Some(memory) = observations.get(Signal::MemoryAvailable)
        {
            let cache = i64::try_from(cache).unwrap_or(i64::MAX);
            let mut memory = *memory;
            // Never more than there is, whatever the two sources say at different moments.
            memory.available = memory
                .available
                .max(memory.available.saturating_add(cache).min(memory.capacity));
            observations.set(Signal::MemoryAvailable, memory);
        }
        observations
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::MemoryStats;

    fn summary(cache: Option<u64>) -> Summary {
        let memory = MemoryStats {
            available: Some(100),
            working_set: Some(900),
            ..MemoryStats::default()
        };
        Summary {
            memory: Some(memory),
            reclaimable_cache: cache,
            ..Summary::default()
        }
    }

    fn available(figure: MemoryFigure, cache: Option<u64>) -> i64 {
        figure
            .observe(&summary(cache))
            .get(Signal::MemoryAvailable)
            .unwrap()
            .available
    }

    #[test]
    fn case_14_reclaimable_cache_counts_as_available_only_in_the_reclaim_aware_figure() {
        assert_eq!(available(MemoryFigure::Kubelet, Some(700)), 100);
        assert_eq!(available(MemoryFigure::ReclaimAware, Some(700)), 800);
    }

    #[test]
    fn the_figure_never_exceeds_the_capacity_and_needs_a_measurement() {
        assert_eq!(available(MemoryFigure::ReclaimAware, Some(u64::MAX)), 1_000);
        assert_eq!(available(MemoryFigure::ReclaimAware, None), 100);
    }
}
