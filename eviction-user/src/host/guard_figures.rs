//! What the policy's guards ask for beside the signals. Read for each decision, and only where somebody
//! asks: the kernel gives the stall out under a lock that its own worker holds at times (`psi_show`, 6.18).

use crate::model::Summary;
use crate::sys::cgroup::{DyingCgroups, Hierarchy};
use crate::sys::pressure::MemoryStall;

/// Which of them are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardsAsked {
    pub stall: bool,
    pub dying: bool,
}

impl GuardsAsked {
    /// For whoever only wants to know; and for a recording, which then can also tell what a guard would
    /// have said that was off.
    pub const ALL: Self = Self {
        stall: true,
        dying: true,
    };
}

/// `None`: not asked for, or not to be had on this machine. Whether that matters is said at the start, when
/// a guard is on.
#[derive(Debug)]
pub(super) struct GuardFigures {
    stall: Option<MemoryStall>,
    dying: Option<DyingCgroups>,
}

impl GuardFigures {
    pub(super) fn open(hierarchy: &Hierarchy, asked: GuardsAsked) -> Self {
        let stall = asked.stall.then(MemoryStall::open);
        let dying = asked.dying.then(|| DyingCgroups::open(hierarchy));
        Self {
            stall: stall.and_then(Result::ok),
            dying: dying.and_then(Result::ok).flatten(),
        }
    }

    pub(super) fn read_into(&self, summary: &mut Summary) {
        summary.memory_stall_percent = self.stall.as_ref().and_then(|s| s.some_percent().ok());
        summary.dying_cgroups = self.dying.as_ref().and_then(|d| d.read().ok());
    }
}
