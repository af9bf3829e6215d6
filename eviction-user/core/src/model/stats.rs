//! What was read about the node and its pods. Absent fields are `None`: often not the same as zero.

use super::disk_use::DiskUse;
use super::time::Timestamp;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemoryStats {
    pub time: Option<Timestamp>,
    pub available: Option<u64>,
    pub usage: Option<u64>,
    pub working_set: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FsStats {
    pub time: Option<Timestamp>,
    pub available: Option<u64>,
    pub capacity: Option<u64>,
    pub used: Option<u64>,
    pub inodes_free: Option<u64>,
    pub inodes: Option<u64>,
    pub inodes_used: Option<u64>,
}

/// Tasks of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rlimit {
    pub time: Option<Timestamp>,
    pub max_pid: Option<i64>,
    pub running: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SystemContainer {
    pub name: String,
    pub memory: Option<MemoryStats>,
}

impl SystemContainer {
    /// The cgroup that holds all pods, source of the allocatable memory signal.
    pub const PODS: &'static str = "pods";
}

/// The node part of the kubelet's stats summary.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Summary {
    pub memory: Option<MemoryStats>,
    pub nodefs: Option<FsStats>,
    pub imagefs: Option<FsStats>,
    pub containerfs: Option<FsStats>,
    pub rlimit: Option<Rlimit>,
    pub system_containers: Vec<SystemContainer>,
    /// Share of memory stall time in the last ten seconds, percent, if pressure stall information
    /// could be read. The kubelet has no use for it; the "PSI too" guard has.
    pub memory_stall_percent: Option<f32>,
    /// Reclaimable page cache that the node's working set still counts, for the reclaim-aware figure.
    pub reclaimable_cache: Option<u64>,
    /// The same of the cgroup that holds all pods.
    pub pods_reclaimable_cache: Option<u64>,
    /// Free swap, for the figure that counts it.
    pub swap_free: Option<u64>,
    /// Removed cgroups that still hold memory (`nr_dying_descendants` of cgroup v2's root).
    pub dying_cgroups: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PodStats {
    pub memory: Option<MemoryStats>,
    pub process_count: Option<u64>,
    pub ephemeral_storage: Option<FsStats>,
    pub containers: Vec<ContainerStats>,
    pub volumes: Vec<VolumeStats>,
    /// Where the figures of disk use come from, if they were put together; for telling, not for deciding.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Vec::is_empty")
    )]
    pub disk: Vec<DiskUse>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ContainerStats {
    pub name: String,
    pub memory: Option<MemoryStats>,
    pub rootfs: Option<FsStats>,
    pub logs: Option<FsStats>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct VolumeStats {
    pub name: String,
    pub fs: FsStats,
}
