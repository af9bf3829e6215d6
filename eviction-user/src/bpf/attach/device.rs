//! What the slots of file systems need: taken when one is watched, given back when its path leads elsewhere.

use std::collections::HashMap;

use eviction_ebpf::abi::{DEVICE_SLOTS, GrowthKey, Kind, Run, Rung};

use super::{Attached, Live, SlotError};
use crate::{
    bpf::{
        counting::Counting,
        device::{kernel_device, user_device},
        family::Family,
        slots::SlotHandle,
    },
    model::Timestamp,
    ports::{Consumer, Grown},
    sys::mount::FsKind,
};

impl Attached {
    /// Whether the attached rungs of a family see this kind of file system.
    pub fn sees(&self, family: Family, kind: &FsKind) -> bool {
        self.rung_for(family, kind).is_some()
    }

    /// The one that does. Tracepoints of inodes belong to one kind each.
    pub fn rung_for(&self, family: Family, kind: &FsKind) -> Option<Rung> {
        let rungs = &self.report.of(self.report.serving(family)).attached;
        rungs.iter().copied().find(|rung| match rung {
            Rung::TraceExt4 => *kind == FsKind::Ext4,
            Rung::TraceXfs => *kind == FsKind::Xfs,
            Rung::TraceBtrfs => *kind == FsKind::Btrfs,
            _ => true,
        })
    }

    /// A slot for the inodes or bytes of the file system with this device number (`st_dev` of anything on it).
    pub fn device_slot(&mut self, family: Family, st_dev: u64) -> Result<SlotHandle, SlotError> {
        let family = self.report.serving(family);
        let attached = self.report.of(family).is_attached();
        let Some(live) = self.live.as_mut().filter(|_| attached) else {
            return Err(SlotError::NoHook(family));
        };
        let device = kernel_device(st_dev);
        let kind = family.kind();
        let slot = live
            .slots
            .take(DEVICE_SLOTS, kind, 0, device)
            .ok_or(SlotError::Full(family))?;
        let cpus = live.cpus.clone();
        let counting = match kind {
            Kind::Bytes => Counting::Bytes { cpus, batch: 1 },
            Kind::Written => Counting::Written { cpus },
            _ => Counting::OneByOne { cpus },
        };
        live.handle(slot, counting)
    }

    /// Gives a device's slot back. What was counted there goes too: nobody counts from here on, so it would be told too low if
    /// the device came back.
    pub(in crate::bpf) fn drop_device(&mut self, family: Family, st_dev: u64, handle: SlotHandle) {
        let Some(live) = self.live.as_mut() else {
            return;
        };
        let (device, kind) = (kernel_device(st_dev), family.kind() as u32);
        // From here on no program finds the slot.
        drop(handle);
        let of_device = |key: &GrowthKey| key.device == device && key.kind == kind;
        let keys: Vec<_> = live.growth.keys().filter_map(Result::ok).collect();
        for key in keys.iter().filter(|key| of_device(key)) {
            live.growth_dropped += u64::from(live.growth.remove(key).is_ok());
        }
    }

    /// Counters of growth that went with their device, in all.
    pub(in crate::bpf) fn growth_dropped(&self) -> u64 {
        self.live.as_ref().map_or(0, |live| live.growth_dropped)
    }

    /// What was used up on the devices that have a slot, by cgroup, since they have it.
    pub fn growth(&self) -> impl Iterator<Item = (Kind, Consumer, Grown)> {
        // First: what a program adds to a counter meanwhile is told twice rather than not at all.
        let runs = self.live.as_ref().map(Live::runs).unwrap_or_default();
        let counts = self.live.iter().flat_map(|live| live.growth.iter());
        // An entry that goes while it is read had been idle the longest: it is no candidate.
        counts
            .filter_map(Result::ok)
            .filter_map(move |(key, growth)| {
                let kind = Kind::try_from(u8::try_from(key.kind).ok()?).ok()?;
                let consumer = Consumer {
                    device: user_device(key.device),
                    cgroup: key.cgroup_id,
                };
                let grown = Grown {
                    net: growth.net.cast_signed() + runs.get(&key).copied().unwrap_or(0),
                    since: Timestamp::from_nanos(
                        i64::try_from(growth.since_ns).unwrap_or(i64::MAX),
                    ),
                };
                Some((kind, consumer, grown))
            })
    }
}

/// How often a CPU's run is read before it is taken for busy: a program changes it within nanoseconds.
const READINGS: usize = 4;

impl Live {
    /// What each CPU has counted and not yet added to a counter.
    fn runs(&self) -> HashMap<GrowthKey, i64> {
        let mut sums = HashMap::new();
        for index in 0..Run::KINDS {
            for (key, net) in self.runs_of(index) {
                *sums.entry(key).or_default() += net;
            }
        }
        sums
    }

    fn runs_of(&self, index: u32) -> Vec<(GrowthKey, i64)> {
        let mut settled: Vec<Option<Run>> = Vec::new();
        for _ in 0..READINGS {
            let Ok(runs) = self.growth_runs.get(&index, 0) else {
                break;
            };
            settled.resize(runs.len(), None);
            for (kept, run) in settled.iter_mut().zip(runs.iter()) {
                if kept.is_none() && run.opened == run.closed {
                    *kept = Some(*run);
                }
            }
            if settled.iter().all(Option::is_some) {
                break;
            }
        }
        let runs = settled.into_iter().flatten();
        runs.map(|run| (run.key, run.net.cast_signed())).collect()
    }
}
