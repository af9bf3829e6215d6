//! A workload: a child cgroup of the watched one.

use super::disk_use::DiskUses;
use super::file_systems::Devices;
use super::held::{self, Held};
use super::kill;
use crate::model::{MemoryStats, ObservedPod, Pod, PodStats, Protection};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, subtree};
use crate::sys::clock;
use std::sync::Arc;

pub(super) struct Member {
    pub(super) group: CgroupDir,
    pub(super) pod: Arc<Pod>,
    memory: Option<GroupMemoryReader>,
    held: Held,
}

/// What is read of each workload beside its memory.
#[derive(Debug, Clone, Copy, Default)]
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
            held: Held::default(),
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
        let groups = std::iter::once_with(|| subtree(&self.group)).flatten();
        let cgroups = groups.map(|group| group.id());
        let disk = self.held.on(devices, cgroups, &self.pod.name, uses);
        Some(PodStats {
            memory: Some(MemoryStats {
                time: Some(clock::now()),
                available: None,
                usage: memory.map(|m| m.usage),
                working_set: Some(working_set),
            }),
            process_count: processes,
            containers: vec![held::as_container(self.pod.name.clone(), &disk)],
            disk,
            ..PodStats::default()
        })
    }
}
