//! What a workload holds on the watched file systems.

use super::disk_use::DiskUses;
use super::file_systems::Devices;
use crate::model::{ContainerStats, DiskUse, FsStats};
use std::collections::BTreeSet;

/// Remembers the ids of all cgroups that have been seen in it: what they used up outlives them.
#[derive(Debug, Default)]
pub struct Held {
    cgroups: BTreeSet<u64>,
}

impl Held {
    /// On each of the devices. `cgroups`: those that are there now. `workload`: as the scan names it.
    pub fn on(
        &mut self,
        devices: Devices,
        cgroups: impl Iterator<Item = u64>,
        workload: &str,
        uses: &DiskUses,
    ) -> Vec<DiskUse> {
        let devices: Vec<u64> = devices.all().collect();
        if devices.is_empty() {
            return Vec::new();
        }
        self.cgroups
            .retain(|cgroup| devices.iter().any(|device| uses.counts(*device, *cgroup)));
        self.cgroups.extend(cgroups);
        let of = |device| uses.of(workload, &self.cgroups, device);
        devices.into_iter().map(of).collect()
    }
}

/// As the policy ranks it. Where the file systems are apart, what lies on the node's counts as logs and volumes do, and the rest
/// as writable layers.
pub fn as_container(name: String, disk: &[DiskUse]) -> ContainerStats {
    let (logs, rootfs) = match disk {
        [node, layers] => (Some(fs_stats(node)), Some(fs_stats(layers))),
        [one] => (Some(NOTHING), Some(fs_stats(one))),
        _ => (None, None),
    };
    ContainerStats {
        name,
        rootfs,
        logs,
        ..ContainerStats::default()
    }
}

const NOTHING: FsStats = FsStats {
    time: None,
    available: None,
    capacity: None,
    used: Some(0),
    inodes_free: None,
    inodes: None,
    inodes_used: Some(0),
};

fn fs_stats(found: &DiskUse) -> FsStats {
    FsStats {
        used: found.bytes(),
        inodes_used: found.inodes(),
        ..FsStats::default()
    }
}
