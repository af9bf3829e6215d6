//! What the policy's guards ask for beside the signals. Read for each decision, so that a recording can
//! also tell what a guard would have said that was off.

use crate::model::Summary;
use crate::sys::cgroup::{DyingCgroups, Hierarchy};
use crate::sys::pressure::MemoryStall;

/// `None`: not to be had on this machine. Whether that matters is said at the start, when a guard is on.
#[derive(Debug)]
pub(super) struct GuardFigures {
    stall: Option<MemoryStall>,
    dying: Option<DyingCgroups>,
}

impl GuardFigures {
    pub(super) fn open(hierarchy: &Hierarchy) -> Self {
        Self {
            stall: MemoryStall::open().ok(),
            dying: DyingCgroups::open(hierarchy).ok().flatten(),
        }
    }

    pub(super) fn read_into(&self, summary: &mut Summary) {
        summary.memory_stall_percent = self.stall.as_ref().and_then(|s| s.some_percent().ok());
        summary.dying_cgroups = self.dying.as_ref().and_then(|d| d.read().ok());
    }
}
