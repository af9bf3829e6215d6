//! What the kernel side tells beside the events: stalls in reclaim, cgroups that come and go, and what of it was lost.

use aya::maps::{HashMap, MapData, MapError, PerCpuArray, RingBuf};
use eviction_ebpf::abi::{CgroupEvent, Loss, Stall};

use crate::sys::cgroup::{Change, ChangeFeed};

/// The maps of the programs that only tell.
pub(super) struct Observed {
    pub(super) stalls: HashMap<MapData, u64, Stall>,
    pub(super) cgroups: Option<CgroupFeed>,
    pub(super) counts: PerCpuArray<MapData, u64>,
}

impl Observed {
    /// Time spent in direct reclaim since the start, by cgroup id.
    pub(super) fn stalls(&self) -> impl Iterator<Item = (u64, Stall)> {
        // An entry that goes while it is read had been idle the longest.
        self.stalls.iter().filter_map(Result::ok)
    }

    pub(super) fn count(&self, what: Loss) -> Result<u64, MapError> {
        total(&self.counts, what)
    }
}

/// Cgroups made and removed, as the kernel tells of them. Read when asked: nobody waits for it.
pub struct CgroupFeed {
    ring: RingBuf<MapData>,
    lost: PerCpuArray<MapData, u64>,
    undecodable: u64,
}

impl CgroupFeed {
    pub(super) fn new(ring: RingBuf<MapData>, lost: PerCpuArray<MapData, u64>) -> Self {
        Self {
            ring,
            lost,
            undecodable: 0,
        }
    }
}

impl ChangeFeed for CgroupFeed {
    fn next(&mut self) -> Option<Change> {
        loop {
            let event = CgroupEvent::decode(&self.ring.next()?);
            match event {
                Ok(event) => return Some(change(&event)),
                Err(_) => self.undecodable += 1,
            }
        }
    }

    fn lost(&mut self) -> u64 {
        // Counters that cannot be read hide nothing for long: names are reconciled by walks in any case.
        total(&self.lost, Loss::Cgroups).unwrap_or(0) + self.undecodable
    }
}

fn change(event: &CgroupEvent) -> Change {
    if event.made == 1 {
        Change::Made {
            id: event.id,
            parent: event.parent,
            name: event.own_name().map(str::to_owned),
        }
    } else {
        Change::Removed { id: event.id }
    }
}

fn total(counts: &PerCpuArray<MapData, u64>, what: Loss) -> Result<u64, MapError> {
    Ok(counts.get(&(what as u32), 0)?.iter().sum())
}
