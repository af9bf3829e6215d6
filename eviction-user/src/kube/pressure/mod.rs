//! What the node's object tells of pressure: conditions of our own, and a taint for each. Never the kubelet's own, which it puts
//! back (measured with kubelet 1.36).

mod clean;
mod object;
mod standing;
mod taints;
mod writer;

pub use clean::{CleanError, Cleaned, Nodes, clean};
pub(super) use object::Ours;
pub(super) use standing::in_force;
pub(super) use writer::Writer;

use crate::model::{Condition, Pod, Span};
use crate::sys::cgroup::{CgroupDir, Hierarchy};

/// What is to be done with the node's conditions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PressureUse {
    /// They are written into the node's status.
    pub conditions: bool,
    /// Each is a taint, too.
    pub taint: bool,
    /// While one holds, new pods are refused as the kubelet would.
    pub admission: bool,
}

/// Why a pod is not let in while these conditions hold, in the kubelet's words; `None`: it is. The policy's.
pub type Refuses = fn(&Pod, &[Condition]) -> Option<String>;

/// The same with what it takes.
#[derive(Debug, Clone)]
pub struct Pressure {
    pub how: PressureUse,
    /// The conditions that some line of ours can raise.
    pub watched: Vec<Condition>,
    pub refuses: Refuses,
    /// `evictionPressureTransitionPeriod`
    pub period: Span,
    /// The cgroup that holds all pods.
    pub root: CgroupDir,
    pub hierarchy: Hierarchy,
}
