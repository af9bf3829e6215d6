//! How an eviction begins, and how far it is.

use crate::model::{Timestamp, Uid};
use std::time::Duration;

/// What a kill has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KillReport {
    /// When the last signal of the first round had been sent.
    pub done: Timestamp,
    pub method: &'static str,
    pub processes: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum KillError {
    #[error("workload {0} is gone already")]
    Gone(Uid),
    #[error(transparent)]
    Failed(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// How an eviction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    Killed(KillReport),
    /// Its processes are told to end, which they may take so long for.
    Leaving(KillReport, Duration),
    /// Somebody is asked to end it, and answers later. It may take so long for that once it is granted; zero: it is killed then.
    Asked(KillReport, Duration),
}

/// How far the removal of a victim is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Removal {
    /// Whoever was asked has not answered yet.
    Unanswered,
    Running,
    Gone,
    /// Whoever was asked does not grant it: the victim stays.
    Refused(Refusal),
    /// Whoever was asked does not answer, for this reason, and the victim is to be killed all the same.
    Bypassed(String),
}

/// Why an eviction is not granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: String,
    /// For so long it is not asked for again.
    pub again: Duration,
    /// Nor would any other be granted meanwhile.
    pub is_for_all: bool,
}
