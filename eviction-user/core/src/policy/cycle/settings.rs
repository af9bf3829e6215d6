//! Configuration of the policy.

use super::super::additions::memory_figure::MemoryFigure;
use crate::model::{Observations, Span, Summary, Threshold};

/// Configuration of the policy, already parsed.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Settings {
    pub thresholds: Vec<Threshold>,
    /// How long a condition is reported after its last cause. Zero reports none, ever.
    pub transition_period: Span,
    /// `evictionMaxPodGracePeriod`. Zero and below mean one second to a killer.
    pub max_pod_grace_secs: i64,
    /// Whether pods are held to their own limits on local storage.
    pub local_storage_isolation: bool,
    /// Which memory figure thresholds are compared with.
    pub memory_figure: MemoryFigure,
}

impl Settings {
    /// The kubelet's defaults around a list of thresholds.
    pub fn with_thresholds(thresholds: Vec<Threshold>) -> Self {
        Self {
            thresholds,
            transition_period: Span::from_secs(300),
            max_pod_grace_secs: 0,
            local_storage_isolation: true,
            memory_figure: MemoryFigure::KUBELET,
        }
    }

    pub fn observe(&self, summary: &Summary) -> Observations {
        self.memory_figure.observe(summary)
    }
}
