//! Freeing node-level resources before anybody is evicted.

use crate::model::{ReclaimCall, Signal};
use std::time::Duration;

/// What is to be freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimOrder {
    pub signal: Signal,
    /// In this order.
    pub calls: &'static [ReclaimCall],
    /// Only look what there would be.
    pub dry_run: bool,
}

/// Who frees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReclaimBy {
    /// The user's command, which knows the signal alone.
    Command,
    /// The container runtime of a Kubernetes node. It can also be asked what there would be.
    Runtime,
}

impl ReclaimBy {
    /// Stable name for records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Runtime => "runtime",
        }
    }
}

/// What a container runtime has removed, or in a dry run would have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    pub containers: u64,
    pub sandboxes: u64,
    pub images: u64,
    /// Of the images, as the runtime tells: what they share with others is in there, so less may come free.
    pub image_bytes: u64,
}

/// How a node-level reclaim went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReclaimReport {
    pub took: Duration,
    pub end: ReclaimEnd,
    /// By the runtime; a command does not tell.
    pub removed: Option<Removed>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReclaimEnd {
    #[error("exit code {0}")]
    Exited(i32),
    #[error("killed by signal {0}")]
    Signalled(i32),
    #[error("not done within {} s, killed", .0.as_secs_f64())]
    TimedOut(Duration),
    #[error("not run: {0}")]
    NotRun(String),
    /// The runtime has done what it was asked.
    #[error("done")]
    Done,
    /// The runtime has not answered in time.
    #[error("{0}")]
    Silent(String),
    /// The runtime could not be asked, or has not done all.
    #[error("{0}")]
    Refused(String),
}

impl ReclaimEnd {
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Exited(0) | Self::Done)
    }
}

/// Frees what a node has to spare, on a thread of its own.
pub trait NodeReclaim: Send {
    fn by(&self) -> ReclaimBy;

    /// Begins, unless it is under way.
    fn begin(&mut self, order: ReclaimOrder);

    /// How it went, once it has ended.
    fn report(&mut self) -> Option<ReclaimReport>;
}

/// What is known of a pod by whoever knows the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodFate {
    /// It is there, and has not ended.
    Alive,
    /// It has ended, and that has been written down with how its containers ended; or there is none.
    Over,
    /// Nobody can tell now.
    Unknown,
}

/// Growth of what is available on a file system; negative: others were faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freed {
    pub bytes: i64,
    pub inodes: i64,
}
