//! containerfs thresholds always follow those of the file system that holds the writable layers.

use std::fmt;

use crate::model::{FsLayout, Limit, Operator, Signal, Span, Threshold};

/// A user's own containerfs threshold that was overwritten. The kubelet logs only the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overwritten {
    pub signal: Signal,
    pub was_hard: bool,
}

impl fmt::Display for Overwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.was_hard { "hard" } else { "soft" };
        write!(f, "found {} for {kind} eviction. ignoring", self.signal)
    }
}

/// The slots to fill, in the order in which missing ones are appended: containerfs signal, hard or
/// soft, and the two signals it may be copied from.
const SLOTS: [(Signal, bool, Signal, Signal); 4] = [
    (
        Signal::ContainerFsAvailable,
        true,
        Signal::NodeFsAvailable,
        Signal::ImageFsAvailable,
    ),
    (
        Signal::ContainerFsAvailable,
        false,
        Signal::NodeFsAvailable,
        Signal::ImageFsAvailable,
    ),
    (
        Signal::ContainerFsInodesFree,
        true,
        Signal::NodeFsInodesFree,
        Signal::ImageFsInodesFree,
    ),
    (
        Signal::ContainerFsInodesFree,
        false,
        Signal::NodeFsInodesFree,
        Signal::ImageFsInodesFree,
    ),
];

/// Rewrites the list in place: existing containerfs entries are overwritten where they stand,
/// missing ones appended. Returns the overwritten entries in list order.
pub fn rewrite(thresholds: &mut Vec<Threshold>, layout: FsLayout) -> Vec<Overwritten> {
    let overwritten = thresholds
        .iter()
        .filter(|threshold| {
            matches!(
                threshold.signal,
                Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree
            )
        })
        .map(|threshold| Overwritten {
            signal: threshold.signal,
            was_hard: threshold.is_hard(),
        })
        .collect();
    if layout.split_containerfs && !layout.dedicated_imagefs {
        return overwritten;
    }
    let follows_images = layout.dedicated_imagefs && !layout.split_containerfs;
    let last_of = |thresholds: &[Threshold], signal, hard| {
        thresholds
            .iter()
            .rposition(|threshold| threshold.signal == signal && threshold.is_hard() == hard)
    };
    // All are looked up before anything is written: a placeholder counts as hard afterwards.
    let plan = SLOTS.map(|(signal, hard, node, image)| {
        let source = last_of(thresholds, if follows_images { image } else { node }, hard);
        let copy = match source {
            Some(source) => Threshold {
                signal,
                ..thresholds[source].clone()
            },
            None => placeholder(signal),
        };
        (last_of(thresholds, signal, hard), copy)
    });
    for (target, copy) in plan {
        match target {
            Some(target) => thresholds[target] = copy,
            None => thresholds.push(copy),
        }
    }
    overwritten
}

/// Stands where the source has no such threshold; never met.
fn placeholder(signal: Signal) -> Threshold {
    Threshold {
        signal,
        operator: Operator::Never,
        limit: Limit::Percentage(0.0),
        grace: Span::ZERO,
        min_reclaim: None,
    }
}
