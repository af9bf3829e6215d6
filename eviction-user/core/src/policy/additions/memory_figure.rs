//! Which memory counts as available: the kubelet's figure, or one that looks further.

use super::super::observe;
use crate::model::{Observation, Observations, Signal, Summary};

/// What the memory signals count beside the kubelet's figure (capacity minus working set).
/// The default is that figure alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemoryFigure {
    /// Page cache that could be reclaimed; the working set counts the active part as used (user
    /// cases 14 and 15).
    pub with_reclaimable_cache: bool,
    /// Free swap of the node, for `memory.available` (user case 7).
    pub with_free_swap: bool,
}

impl MemoryFigure {
    pub const KUBELET: Self = Self {
        with_reclaimable_cache: false,
        with_free_swap: false,
    };

    /// What is observed of a summary. What was not measured adds nothing.
    pub fn observe(self, summary: &Summary) -> Observations {
        let mut observations = observe::observations(summary);
        if self == Self::KUBELET {
            return observations;
        }
        let mut adapt = |signal, cache, swap| {
            if let Some(memory) = observations.get(signal) {
                observations.set(signal, self.look_further(*memory, cache, swap));
            }
        };
        adapt(
            Signal::MemoryAvailable,
            summary.reclaimable_cache,
            summary.swap_free,
        );
        adapt(
            Signal::AllocatableMemoryAvailable,
            summary.pods_reclaimable_cache,
            None,
        );
        observations
    }

    fn look_further(
        self,
        mut memory: Observation,
        cache: Option<u64>,
        swap: Option<u64>,
    ) -> Observation {
        if self.with_reclaimable_cache {
            // Never more than there is, whatever two sources say at different moments.
            let with_cache = memory.available.saturating_add(signed(cache));
            memory.available = memory.available.max(with_cache.min(memory.capacity));
        }
        if self.with_free_swap {
            memory.available = memory.available.saturating_add(signed(swap));
        }
        memory
    }
}

fn signed(bytes: Option<u64>) -> i64 {
    i64::try_from(bytes.unwrap_or(0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MemoryStats, SystemContainer};

    fn available(figure: MemoryFigure, cache: Option<u64>, swap: Option<u64>) -> i64 {
        let memory = MemoryStats {
            available: Some(100),
            working_set: Some(900),
            ..MemoryStats::default()
        };
        let summary = Summary {
            memory: Some(memory),
            reclaimable_cache: cache,
            swap_free: swap,
            ..Summary::default()
        };
        figure
            .observe(&summary)
            .get(Signal::MemoryAvailable)
            .unwrap()
            .available
    }

    const WITH_CACHE: MemoryFigure = MemoryFigure {
        with_reclaimable_cache: true,
        with_free_swap: false,
    };
    const WITH_SWAP: MemoryFigure = MemoryFigure {
        with_reclaimable_cache: false,
        with_free_swap: true,
    };

    #[test]
    fn case_14_reclaimable_cache_counts_as_available_only_on_request() {
        assert_eq!(available(MemoryFigure::KUBELET, Some(700), None), 100);
        assert_eq!(available(WITH_CACHE, Some(700), None), 800);
    }

    #[test]
    fn case_14_the_pods_cgroup_has_a_cache_of_its_own_and_no_swap() {
        let pods = SystemContainer {
            name: SystemContainer::PODS.to_owned(),
            memory: Some(MemoryStats {
                available: Some(10),
                working_set: Some(90),
                ..MemoryStats::default()
            }),
        };
        let summary = Summary {
            system_containers: vec![pods],
            reclaimable_cache: Some(700),
            pods_reclaimable_cache: Some(50),
            swap_free: Some(5_000),
            ..Summary::default()
        };
        let both = MemoryFigure {
            with_reclaimable_cache: true,
            with_free_swap: true,
        };
        let observed = both.observe(&summary);
        let pods = observed.get(Signal::AllocatableMemoryAvailable).unwrap();
        assert_eq!((pods.available, pods.capacity), (60, 100));
    }

    #[test]
    fn case_7_free_swap_counts_as_available_only_on_request() {
        assert_eq!(available(MemoryFigure::KUBELET, None, Some(5_000)), 100);
        assert_eq!(available(WITH_SWAP, None, Some(5_000)), 5_100);
    }

    #[test]
    fn cache_never_exceeds_the_capacity_and_what_was_not_measured_adds_nothing() {
        assert_eq!(available(WITH_CACHE, Some(u64::MAX), None), 1_000);
        assert_eq!(available(WITH_CACHE, None, Some(5_000)), 100);
        assert_eq!(available(WITH_SWAP, Some(700), None), 100);
    }
}
