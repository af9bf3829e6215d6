//! Configuration of the engine.

use super::super::additions::Additions;
use super::super::cycle::Settings;
use crate::model::{Span, Threshold};

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EngineConfig {
    pub settings: Settings,
    pub additions: Additions,
    /// How long to wait for victims to be gone before going on without them.
    pub cleanup_timeout: Span,
    /// How long a candidate is passed over after a kill that failed.
    pub failed_kill_backoff: Span,
}

impl EngineConfig {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            additions: Additions::default(),
            // The kubelet's podCleanupTimeout.
            cleanup_timeout: Span::from_secs(30),
            failed_kill_backoff: Span::from_secs(30),
        }
    }

    /// The kubelet's defaults around a list of thresholds.
    pub fn with_thresholds(thresholds: Vec<Threshold>) -> Self {
        Self::new(Settings::with_thresholds(thresholds))
    }
}
