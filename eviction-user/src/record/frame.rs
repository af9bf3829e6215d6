//! What a recording is made of.

use super::note::Note;
use crate::model::{Action, Timestamp};
use crate::policy::engine::Checkpoint;
use crate::policy::{EngineConfig, Input};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Frame {
    /// The first frame of each file, and nowhere else.
    Head(Box<Head>),
    Input(Box<Told>),
    /// What the engine answered to the input before; `None`: the look could not be judged, because the
    /// storage layout was not known.
    Decisions(Option<Vec<Action>>),
    /// What else happened: kernel events, kills, outcomes.
    Note(Note),
    Gap(Box<Gap>),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Head {
    /// Name and version of the program that wrote it.
    pub program: String,
    /// The same in all files of one run.
    pub run: String,
    /// Counts the files of one run, from 0.
    pub part: u32,
    /// Nanoseconds since 1970 at zero of the recording's clock.
    pub epoch_nanos: i64,
    pub platform: Platform,
    pub dry_run: bool,
    pub config: EngineConfig,
    /// The engine's state where the file starts; `None`: at the start of a run.
    pub resume: Option<Checkpoint>,
}

/// What the pods are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Platform {
    /// Child cgroups, and thresholds exactly as they are named.
    Host,
    /// Pods, and allocatable copies of memory thresholds as the kubelet makes them.
    Kubernetes,
}

/// One input of the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Told {
    pub at: Timestamp,
    /// What led to the look.
    pub wake: Cow<'static, str>,
    pub input: Input,
}

impl Told {
    /// Stable name of the kind of input.
    pub fn kind(&self) -> &'static str {
        match &self.input {
            Input::Cycle(_) => "cycle",
            Input::SampleFailed { .. } => "sample-failed",
            Input::Reclaimed(_) => "reclaimed",
            Input::Evicted { .. } => "evicted",
            Input::EvictionFailed { .. } => "eviction-failed",
            Input::CleanupTimeout => "cleanup-timeout",
            Input::Relaid { .. } => "relaid",
        }
    }
}

/// Here something is missing: the recorder had no room, or the disk had none.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gap {
    /// Inputs that were not recorded.
    pub lost: u64,
    /// The engine's state behind the gap.
    pub resume: Checkpoint,
}
