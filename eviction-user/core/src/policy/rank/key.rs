//! One pod's rank key.

use super::super::requests;
use super::super::usage::{self, DiskParts};
use super::disk_parts;
use crate::model::{FsLayout, ObservedPod, RankKey, Resource, Signal, Wishes};

/// What pods are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    Memory,
    Processes,
    DiskBytes(DiskParts),
    Inodes(DiskParts),
}

impl Measure {
    pub fn of_signal(signal: Signal, layout: FsLayout) -> Self {
        match (disk_parts(signal, layout), signal.resource()) {
            (Some(parts), Resource::Inodes) => Self::Inodes(parts),
            (Some(parts), _) => Self::DiskBytes(parts),
            (None, Resource::Pids) => Self::Processes,
            (None, _) => Self::Memory,
        }
    }

    pub const fn resource(self) -> Resource {
        match self {
            Self::Memory => Resource::Memory,
            Self::Processes => Resource::Pids,
            Self::DiskBytes(_) => Resource::EphemeralStorage,
            Self::Inodes(_) => Resource::Inodes,
        }
    }
}

pub(super) fn of(observed: &ObservedPod, measure: Measure, wishes: Wishes) -> RankKey {
    let pod = observed.pod.as_ref();
    let priority = pod.effective_priority();
    let Some(stats) = &observed.stats else {
        // Without stats nothing can be compared: such pods tie in all but priority.
        return RankKey {
            has_stats: false,
            exceeds_request: false,
            is_preferred: wishes.prefer,
            priority,
            usage: 0,
            request_nanos: 0,
        };
    };
    let (usage, request_nanos, threshold_nanos) = match measure {
        Measure::Memory => {
            let request = requests::memory(pod).nanos();
            let asked = wishes.memory_threshold.map(i128::from);
            let threshold = asked.map_or(request, |bytes| bytes * 1_000_000_000);
            (usage::memory_working_set(stats), request, threshold)
        }
        Measure::Processes => (i128::from(usage::process_count(stats)), 0, i128::MAX),
        Measure::DiskBytes(parts) => {
            let request = requests::ephemeral_storage(pod).nanos();
            (
                usage::disk(pod, stats, parts, Resource::EphemeralStorage),
                request,
                request,
            )
        }
        // Nobody requests inodes, so every pod that uses one exceeds; yet the kubelet subtracts the
        // request for *bytes* when it compares by usage.
        Measure::Inodes(parts) => {
            let request = requests::ephemeral_storage(pod).nanos();
            (usage::disk(pod, stats, parts, Resource::Inodes), request, 0)
        }
    };
    let exceeds_request = usage.saturating_mul(1_000_000_000) > threshold_nanos;
    RankKey {
        has_stats: true,
        exceeds_request,
        is_preferred: wishes.prefer,
        priority,
        usage,
        request_nanos,
    }
}
