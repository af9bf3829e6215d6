//! Which of several satisfied thresholds is acted on.

use crate::model::{Resource, Signal, Threshold};

/// Classes of signals in the order in which they are acted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    Memory,
    Other,
    /// Not a signal of ours; nothing can be reclaimed for it.
    Unknown,
}

pub fn class(signal: Option<Signal>) -> Class {
    match signal.map(Signal::resource) {
        Some(Resource::Memory) => Class::Memory,
        Some(Resource::EphemeralStorage | Resource::Inodes | Resource::Pids) => Class::Other,
        None => Class::Unknown,
    }
}

/// Sorts positions of thresholds: memory first, then hard before soft, then list order.
///
/// The kubelet promises only the first of these; between the others it is random per cycle.
pub fn sort(thresholds: &[Threshold], positions: &mut [usize]) {
    positions.sort_unstable_by_key(|position| {
        let threshold = &thresholds[*position];
        (
            class(Some(threshold.signal)),
            !threshold.is_hard(),
            *position,
        )
    });
}
