//! Where to set a cgroup v1 usage notification so that it fires when a memory threshold is met.

use super::limit::effective;
use super::observe::pods_container;
use crate::model::{MemoryStats, Quantity, Signal, Summary, SystemContainer, Threshold};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MemcgError {
    #[error("system container {:?} not found in metrics", SystemContainer::PODS)]
    NoPodsContainer,
    #[error(
        "summary was incomplete.  Expected MemoryStats and all subfields to be non-nil, but got {0:?}"
    )]
    Incomplete(Option<MemoryStats>),
}

/// The level of `memory.usage_in_bytes` at which the working set reaches the threshold, if the
/// inactive file pages stay as they are.
pub fn usage_level(threshold: &Threshold, summary: &Summary) -> Result<i64, MemcgError> {
    let memory = if is_allocatable(threshold) {
        pods_container(summary)
            .ok_or(MemcgError::NoPodsContainer)?
            .memory
    } else {
        summary.memory
    };
    let incomplete = MemcgError::Incomplete(memory);
    let Some(MemoryStats {
        usage: Some(usage),
        working_set: Some(working_set),
        available: Some(available),
        ..
    }) = memory
    else {
        return Err(incomplete);
    };
    let inactive_file = Quantity::binary(usage.wrapping_sub(working_set).cast_signed());
    let capacity = available.wrapping_add(working_set).cast_signed();
    let limit = effective(&threshold.limit, capacity);
    Ok(Quantity::binary(capacity)
        .minus(&limit)
        .plus(&inactive_file)
        .value())
}

/// What the notification is for, as the kubelet logs it.
pub fn description(threshold: &Threshold) -> String {
    let hardness = if threshold.is_hard() {
        "hard "
    } else {
        "soft "
    };
    let allocatable = if is_allocatable(threshold) {
        "allocatable "
    } else {
        ""
    };
    format!("{hardness}{allocatable}memory eviction threshold")
}

fn is_allocatable(threshold: &Threshold) -> bool {
    threshold.signal == Signal::AllocatableMemoryAvailable
}
