//! A workload: a child cgroup of the watched one.

use super::disk_use::DiskUses;
use super::file_systems::Devices;
use super::kill;
use crate::model::{
    ContainerStats, DiskUse, FsStats, MemoryStats, ObservedPod, Pod, PodStats, Protection,
};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, subtree};
use crate::sys::clock;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) struct Member {
    pub(super) group: CgroupDir,
    pub(super) pod: Arc<Pod>,
    memory: Option<GroupMemoryReader>,
    /// Ids of all cgroups that have been seen in it: what they used up outlives them.
    cgroups: BTreeSet<u64>,
}

/// What is read of each workload beside its memory.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    pub devices: Devices,
    pub processes: bool,
    /// A workload with more processes is never chosen.
    pub most_processes: Option<u64>,
}

impl Member {
    /// `memory`: `None` without the memory controller in the parent's subtree_control. There is no figure
    /// then, and so no stats.
    pub(super) fn new(group: CgroupDir, pod: Pod, memory: Option<GroupMemoryReader>) -> Self {
        Self {
            group,
            pod: Arc::new(pod),
            memory,
            cgroups: BTreeSet::new(),
        }
    }

    pub(super) fn observe(&mut self, reading: Reading, uses: &DiskUses) -> ObservedPod {
        let processes = (reading.processes || reading.most_processes.is_some())
            .then(|| kill::count(&self.group).ok())
            .flatten()
            .map(|found| found as u64);
        ObservedPod {
            pod: self.capped(reading.most_processes, processes),
            stats: self.stats(reading.devices, processes, uses),
        }
    }

    /// User case 30: a killer that took 2,104 processes for one.
    fn capped(&self, most: Option<u64>, processes: Option<u64>) -> Arc<Pod> {
        match (most, processes) {
            (Some(most), Some(found)) if found > most && self.pod.protection.is_none() => {
                let mut pod = Pod::clone(&self.pod);
                let rule = format!("--max-processes {most}: it has {found}");
                pod.protection = Some(Protection::Configured(rule));
                Arc::new(pod)
            }
            _ => Arc::clone(&self.pod),
        }
    }

    fn stats(
        &mut self,
        devices: Devices,
        processes: Option<u64>,
        uses: &DiskUses,
    ) -> Option<PodStats> {
        // A cgroup that has just been removed has nothing to give back: it must not rank first as a
        // pod without stats would, so its use is nought.
        let memory = self.memory.as_ref()?.read().ok();
        let working_set = memory.map_or(0, |m| m.working_set());
        let disk = self.disk(devices, uses);
        // Where the file systems are apart, what lies on the node's ranks as a pod's logs do, and the rest
        // as its writable layer.
        let (logs, rootfs) = match disk.as_slice() {
            [node, layers] => (Some(fs_stats(node)), Some(fs_stats(layers))),
            [one] => (Some(NOTHING), Some(fs_stats(one))),
            _ => (None, None),
        };
        let container = ContainerStats {
            name: self.pod.name.clone(),
            rootfs,
            logs,
            ..ContainerStats::default()
        };
        Some(PodStats {
            memory: Some(MemoryStats {
                time: Some(clock::now()),
                available: None,
                usage: memory.map(|m| m.usage),
                working_set: Some(working_set),
            }),
            process_count: processes,
            containers: vec![container],
            disk,
            ..PodStats::default()
        })
    }

    /// On each of the devices.
    fn disk(&mut self, devices: Devices, uses: &DiskUses) -> Vec<DiskUse> {
        let devices: Vec<u64> = devices.node.into_iter().chain(devices.layers).collect();
        if devices.is_empty() {
            return Vec::new();
        }
        self.cgroups
            .retain(|cgroup| devices.iter().any(|device| uses.counts(*device, *cgroup)));
        self.cgroups
            .extend(subtree(&self.group).iter().map(CgroupDir::id));
        let of = |device| uses.of(&self.pod.name, &self.cgroups, device);
        devices.into_iter().map(of).collect()
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
