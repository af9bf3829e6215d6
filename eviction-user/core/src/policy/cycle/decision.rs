//! What a cycle comes to.

use std::sync::Arc;

use super::super::message;
use crate::model::{
    Eviction, FsLayout, NodeEvent, Observations, Ranking, ReclaimCall, Signal, Snapshot, Threshold,
};

/// What a cycle comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// Neither thresholds nor local storage limits: nothing was looked at.
    NothingToWatch,
    /// Nothing has to go.
    Calm,
    /// Pods that broke their own limits.
    EvictLocal(Vec<Eviction>),
    /// Node-level resources are to be freed first; answer with [`after_reclaim`].
    Reclaim(Box<Pressure>),
    /// Freeing node-level resources was enough.
    Reclaimed,
    Evict {
        event: NodeEvent,
        eviction: Box<Eviction>,
    },
    /// A threshold asks for a victim, and nobody may go.
    NoCandidate {
        event: NodeEvent,
        signal: Signal,
        ranking: Box<Ranking>,
    },
}

/// A threshold to act on, with the look that showed it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pressure {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) observations: Observations,
    pub(super) layout: FsLayout,
    /// Thresholds that may be acted on, in order of priority; never empty.
    pub(super) fresh: Vec<usize>,
    pub signal: Signal,
    #[cfg_attr(
        feature = "serde",
        serde(deserialize_with = "crate::model::static_text::calls")
    )]
    pub calls: &'static [ReclaimCall],
}

impl Pressure {
    /// Whether all positions are those of thresholds; not a given for what was read from outside.
    pub fn fits(&self, thresholds: &[Threshold]) -> bool {
        !self.fresh.is_empty() && self.fresh.iter().all(|at| *at < thresholds.len())
    }

    pub fn event(&self) -> NodeEvent {
        let message = format!("Attempting to reclaim {}", self.signal.resource());
        NodeEvent {
            reason: message::NODE_REASON,
            message,
        }
    }
}
