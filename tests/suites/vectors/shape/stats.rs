//! Statistics of pods.

use std::collections::HashMap;
use std::sync::Arc;

use eviction_core::model::{
    ContainerStats, FsStats, MemoryStats, ObservedPod, Pod, PodStats, VolumeStats,
};
use serde::Deserialize;

use super::instant;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PodStatsShape {
    #[serde(default)]
    uid: String,
    memory: Option<MemoryShape>,
    process: Option<ProcessShape>,
    ephemeral_storage: Option<FsShape>,
    #[serde(default)]
    containers: Vec<ContainerStatsShape>,
    #[serde(default)]
    volumes: Vec<FsShape>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessShape {
    count: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerStatsShape {
    name: String,
    memory: Option<MemoryShape>,
    rootfs: Option<FsShape>,
    logs: Option<FsShape>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryShape {
    time_ms: Option<i64>,
    available: Option<u64>,
    usage: Option<u64>,
    working_set: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FsShape {
    /// Only volumes have one.
    #[serde(default)]
    name: String,
    time_ms: Option<i64>,
    available: Option<u64>,
    capacity: Option<u64>,
    used: Option<u64>,
    inodes_free: Option<u64>,
    inodes: Option<u64>,
    inodes_used: Option<u64>,
}

impl MemoryShape {
    pub(crate) fn stats(&self) -> MemoryStats {
        MemoryStats {
            time: instant(self.time_ms),
            available: self.available,
            usage: self.usage,
            working_set: self.working_set,
        }
    }
}

impl FsShape {
    pub(crate) fn stats(&self) -> FsStats {
        FsStats {
            time: instant(self.time_ms),
            available: self.available,
            capacity: self.capacity,
            used: self.used,
            inodes_free: self.inodes_free,
            inodes: self.inodes,
            inodes_used: self.inodes_used,
        }
    }
}

impl PodStatsShape {
    pub(crate) fn stats(&self) -> PodStats {
        PodStats {
            memory: self.memory.as_ref().map(MemoryShape::stats),
            process_count: self.process.as_ref().and_then(|process| process.count),
            ephemeral_storage: self.ephemeral_storage.as_ref().map(FsShape::stats),
            containers: self
                .containers
                .iter()
                .map(ContainerStatsShape::stats)
                .collect(),
            volumes: self
                .volumes
                .iter()
                .map(|volume| VolumeStats {
                    name: volume.name.clone(),
                    fs: volume.stats(),
                })
                .collect(),
            disk: Vec::new(),
        }
    }
}

impl ContainerStatsShape {
    fn stats(&self) -> ContainerStats {
        ContainerStats {
            name: self.name.clone(),
            memory: self.memory.as_ref().map(MemoryShape::stats),
            rootfs: self.rootfs.as_ref().map(FsShape::stats),
            logs: self.logs.as_ref().map(FsShape::stats),
        }
    }
}

/// Joins pods with their statistics by uid.
pub(crate) fn observed_pods(
    pods: impl IntoIterator<Item = Arc<Pod>>,
    stats: &[PodStatsShape],
) -> Vec<ObservedPod> {
    let by_uid: HashMap<_, _> = stats
        .iter()
        .map(|stats| (stats.uid.as_str(), stats))
        .collect();
    pods.into_iter()
        .map(|pod| {
            let stats = by_uid.get(pod.uid.as_str()).map(|stats| stats.stats());
            ObservedPod { pod, stats }
        })
        .collect()
}
