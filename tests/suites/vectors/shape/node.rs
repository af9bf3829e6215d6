//! The node's statistics and what is observed of them.

use std::collections::BTreeMap;

use eviction_core::model::{Observation, Observations, Rlimit, Summary, SystemContainer};
use serde::Deserialize;

use super::stats::{FsShape, MemoryShape};
use super::{PodStatsShape, instant, millis, signal};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSummary {
    node: NodeShape,
    pub(crate) pods: Vec<PodStatsShape>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeShape {
    memory: Option<MemoryShape>,
    fs: Option<FsShape>,
    runtime: Option<RuntimeShape>,
    rlimit: Option<RlimitShape>,
    #[serde(default)]
    system_containers: Vec<SystemContainerShape>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuntimeShape {
    imagefs: Option<FsShape>,
    containerfs: Option<FsShape>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RlimitShape {
    time_ms: Option<i64>,
    max_pid: Option<i64>,
    running: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SystemContainerShape {
    name: String,
    memory: Option<MemoryShape>,
}

impl NodeSummary {
    pub(crate) fn summary(&self) -> Summary {
        let node = &self.node;
        let runtime = node.runtime.as_ref();
        let container = |container: &SystemContainerShape| SystemContainer {
            name: container.name.clone(),
            memory: container.memory.as_ref().map(MemoryShape::stats),
        };
        Summary {
            memory: node.memory.as_ref().map(MemoryShape::stats),
            nodefs: node.fs.as_ref().map(FsShape::stats),
            imagefs: runtime
                .and_then(|runtime| runtime.imagefs.as_ref())
                .map(FsShape::stats),
            containerfs: runtime
                .and_then(|runtime| runtime.containerfs.as_ref())
                .map(FsShape::stats),
            rlimit: node.rlimit.as_ref().map(|rlimit| Rlimit {
                time: instant(rlimit.time_ms),
                max_pid: rlimit.max_pid,
                running: rlimit.running,
            }),
            system_containers: node.system_containers.iter().map(container).collect(),
            ..Summary::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeObservation {
    available: i64,
    capacity: i64,
    time_ms: Option<i64>,
}

impl NodeObservation {
    pub(crate) fn of(observation: &Observation) -> Self {
        Self {
            available: observation.available,
            capacity: observation.capacity,
            time_ms: observation.time.map(millis),
        }
    }
}

pub(crate) fn observations(shapes: &BTreeMap<String, NodeObservation>) -> Observations {
    let observation = |shape: &NodeObservation| Observation {
        available: shape.available,
        capacity: shape.capacity,
        time: instant(shape.time_ms),
    };
    shapes
        .iter()
        .map(|(name, shape)| (signal(name), observation(shape)))
        .collect()
}
