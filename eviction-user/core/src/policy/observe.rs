//! From a stats summary to what was observed for each signal.

use crate::model::{
    FsStats, MemoryStats, Observation, Observations, Signal, Summary, SystemContainer,
};

/// A signal appears only when both of its source fields are there. Unsigned fields are read as
/// signed, as the kubelet does: a working set above its limit wraps and becomes negative.
pub fn observations(summary: &Summary) -> Observations {
    let pods = pods_container(summary).and_then(|container| container.memory.as_ref());
    let sources = [
        (Signal::MemoryAvailable, memory(summary.memory.as_ref())),
        (Signal::AllocatableMemoryAvailable, memory(pods)),
        (Signal::NodeFsAvailable, bytes(summary.nodefs.as_ref())),
        (Signal::NodeFsInodesFree, inodes(summary.nodefs.as_ref())),
        (Signal::ImageFsAvailable, bytes(summary.imagefs.as_ref())),
        (Signal::ImageFsInodesFree, inodes(summary.imagefs.as_ref())),
        (
            Signal::ContainerFsAvailable,
            bytes(summary.containerfs.as_ref()),
        ),
        (
            Signal::ContainerFsInodesFree,
            inodes(summary.containerfs.as_ref()),
        ),
        (Signal::PidAvailable, tasks(summary)),
    ];
    sources
        .into_iter()
        .filter_map(|(signal, source)| Some((signal, source?)))
        .collect()
}

/// The cgroup that holds all pods, if it was measured.
pub(super) fn pods_container(summary: &Summary) -> Option<&SystemContainer> {
    summary
        .system_containers
        .iter()
        .find(|container| container.name == SystemContainer::PODS)
}

fn memory(stats: Option<&MemoryStats>) -> Option<Observation> {
    let stats = stats?;
    let available = stats.available?;
    let capacity = available.wrapping_add(stats.working_set?);
    Some(observation(available, capacity, stats.time))
}

fn bytes(stats: Option<&FsStats>) -> Option<Observation> {
    let stats = stats?;
    Some(observation(stats.available?, stats.capacity?, stats.time))
}

fn inodes(stats: Option<&FsStats>) -> Option<Observation> {
    let stats = stats?;
    Some(observation(stats.inodes_free?, stats.inodes?, stats.time))
}

fn tasks(summary: &Summary) -> Option<Observation> {
    let rlimit = summary.rlimit.as_ref()?;
    let max = rlimit.max_pid?;
    Some(Observation {
        available: max.wrapping_sub(rlimit.running?),
        capacity: max,
        time: rlimit.time,
    })
}

const fn observation(
    available: u64,
    capacity: u64,
    time: Option<crate::model::Timestamp>,
) -> Observation {
    Observation {
        available: available.cast_signed(),
        capacity: capacity.cast_signed(),
        time,
    }
}
