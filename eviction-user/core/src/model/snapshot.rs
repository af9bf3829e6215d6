//! Everything one decision is made on.

use std::sync::Arc;

use super::layout::FsLayout;
use super::pod::Pod;
use super::stats::{PodStats, Summary};
use super::time::Timestamp;

/// A pod and what was read about it; `None` means no stats at all, which ranks a pod first.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ObservedPod {
    pub pod: Arc<Pod>,
    pub stats: Option<PodStats>,
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Snapshot {
    pub taken: Timestamp,
    pub summary: Summary,
    /// Active pods. Their order breaks ties of the ranking.
    pub pods: Vec<ObservedPod>,
    /// `None` while the storage layout cannot be told; the first known one is kept until the engine is told of another.
    pub layout: Option<FsLayout>,
}
