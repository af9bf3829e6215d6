//! What a pod uses, as the ranking counts it.

use crate::model::{ContainerStats, FsStats, Pod, PodStats, Resource};

/// Bytes of working set; absent counts as zero. Read as signed, as the kubelet does.
pub fn memory_working_set(stats: &PodStats) -> i128 {
    signed(stats.memory.and_then(|memory| memory.working_set))
}

/// Processes of all containers; absent counts as zero.
pub fn process_count(stats: &PodStats) -> u64 {
    stats.process_count.unwrap_or(0)
}

/// Parts of a pod's disk use that a signal's file system holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DiskParts {
    /// Writable layers of the containers.
    pub root: bool,
    pub logs: bool,
    pub local_volumes: bool,
    // Images would be a fourth part, but nothing measures them per pod.
}

/// Bytes or inodes in these parts; anything but inodes is read as bytes.
pub fn disk(pod: &Pod, stats: &PodStats, parts: DiskParts, resource: Resource) -> i128 {
    let containers = stats
        .containers
        .iter()
        .map(|container| container_disk(container, parts, resource))
        .sum();
    if !parts.local_volumes {
        return containers;
    }
    let local_volumes = pod
        .volumes
        .iter()
        .filter(|volume| volume.is_local())
        .map(|volume| {
            // The first match by name, as the kubelet joins them.
            let measured = stats
                .volumes
                .iter()
                .find(|measured| measured.name == volume.name);
            measured.map_or(0, |measured| amount(&measured.fs, resource))
        });
    local_volumes.fold(containers, i128::saturating_add)
}

/// The part of one container.
pub fn container_disk(stats: &ContainerStats, parts: DiskParts, resource: Resource) -> i128 {
    let of = |counts: bool, fs: &Option<FsStats>| match fs {
        Some(fs) if counts => amount(fs, resource),
        _ => 0,
    };
    of(parts.root, &stats.rootfs) + of(parts.logs, &stats.logs)
}

fn amount(fs: &FsStats, resource: Resource) -> i128 {
    if resource == Resource::Inodes {
        signed(fs.inodes_used)
    } else {
        signed(fs.used)
    }
}

fn signed(amount: Option<u64>) -> i128 {
    i128::from(amount.unwrap_or(0).cast_signed())
}
