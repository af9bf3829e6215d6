//! What memory's slots need: how the rung in use counts, and on how many CPUs.

use std::sync::Arc;

use eviction_ebpf::abi::{Kind, MEMORY_SLOTS, Rung};

use super::{Attached, SlotError};
use crate::bpf::{
    counting::Counting,
    family::Family,
    faults::{FaultError, online},
    slots::SlotHandle,
};

impl Attached {
    /// A slot for the node (`None`) or for the cgroup with this id in the memory hierarchy, its descendants included.
    pub fn memory_slot(&mut self, scope: Option<u64>) -> Result<SlotHandle, SlotError> {
        let hook = self.report.of(Family::Memory).attached.first().copied();
        let (Some(live), Some(rung)) = (&self.live, hook) else {
            return Err(SlotError::NoHook(Family::Memory));
        };
        let slot = live
            .slots
            .take(0..MEMORY_SLOTS, Kind::Memory, scope.unwrap_or(0), 0)
            .ok_or(SlotError::Full(Family::Memory))?;
        let node = scope.is_none().then_some(live.node_lag);
        let cpus = live.cpus.clone();
        let counting = match (&live.faults, rung) {
            (Some(sampling), Rung::PerfFaults) => Counting::Faults {
                sampling: Arc::clone(sampling),
                node,
            },
            (_, Rung::TracePageAlloc) => Counting::Allocations { cpus },
            _ => Counting::Charges { cpus, node },
        };
        live.handle(slot, counting)
    }

    /// Whether the programs may stay silent while the real counter shows room.
    pub(in crate::bpf) fn compares(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.compares)
    }

    /// Follows CPUs that came or went.
    pub fn follow_cpus(&self) -> Result<(), FaultError> {
        let Some(live) = &self.live else {
            return Ok(());
        };
        let online = match &live.faults {
            Some(sampling) => sampling.follow_cpus()?,
            None => online()?.len() as u32,
        };
        live.cpus.set(online);
        Ok(())
    }
}
