//! What an engine knows, taken out and put into another one: a recording starts with it when it
//! starts in the middle of a run.

use super::super::additions::exclusion::{BackedOff, Refused};
use super::super::additions::filling_guard::FillingGuard;
use super::super::additions::pace::Pace;
use super::super::cycle::{Pressure, State};
use super::{Engine, EngineConfig, Waiting};
use crate::model::Timestamp;

/// All that an engine knows beside its configuration.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Checkpoint {
    state: State,
    waiting: Option<Waiting>,
    reclaiming: Option<Box<Pressure>>,
    backed_off: BackedOff,
    #[cfg_attr(feature = "serde", serde(default))]
    refused: Refused,
    pace: Pace,
    #[cfg_attr(feature = "serde", serde(default))]
    filling: FillingGuard,
    held_until: Option<Timestamp>,
    look_due: Option<Timestamp>,
}

/// A checkpoint that contradicts itself, so no engine made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the engine's state refers to thresholds that are not there")]
pub struct BadCheckpoint;

impl Engine {
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            state: self.state.clone(),
            waiting: self.waiting.clone(),
            reclaiming: self.reclaiming.clone(),
            backed_off: self.backed_off.clone(),
            refused: self.refused.clone(),
            pace: self.pace.clone(),
            filling: self.filling.clone(),
            held_until: self.held_until,
            look_due: self.look_due,
        }
    }

    /// An engine that goes on where another of the same configuration was.
    pub fn resume(config: EngineConfig, from: Checkpoint) -> Result<Self, BadCheckpoint> {
        let thresholds = from.state.thresholds();
        let reclaim_fits = from.reclaiming.iter().all(|p| p.fits(thresholds));
        if !from.state.is_consistent() || !reclaim_fits {
            return Err(BadCheckpoint);
        }
        Ok(Self {
            config,
            state: from.state,
            waiting: from.waiting,
            reclaiming: from.reclaiming,
            backed_off: from.backed_off,
            refused: from.refused,
            pace: from.pace,
            filling: from.filling,
            held_until: from.held_until,
            look_due: from.look_due,
        })
    }
}
