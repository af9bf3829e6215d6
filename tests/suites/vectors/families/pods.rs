//! What a pod asks for, uses, and may expect.

use eviction_core::model::{Resource, Signal};
use eviction_core::policy::admission::{self, Admission};
use eviction_core::policy::usage::{self, DiskParts};
use eviction_core::policy::{critical, qos, requests};
use serde::Deserialize;
use serde_json::Value;

use super::conditions::condition;
use crate::check::{Mismatch, read, same};
use crate::shape::{PodShape, PodStatsShape, QuantityShape};

#[derive(Deserialize)]
struct PodIn {
    pod: PodShape,
}

pub(crate) fn admit(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        pod: PodShape,
        node_conditions: Vec<String>,
    }
    let case: In = read(input)?;
    let conditions: Vec<_> = case
        .node_conditions
        .iter()
        .map(|name| condition(name))
        .collect();
    let ours = AdmitOut::of(admission::admit(&case.pod.pod(), &conditions), None);
    same("admission", &ours, &read(output)?)
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AdmitOut {
    admit: bool,
    reason: String,
    message: String,
    /// Only in scenarios.
    uid: Option<String>,
}

impl AdmitOut {
    pub(super) fn of(admission: Admission, uid: Option<String>) -> Self {
        match admission {
            Admission::Admit => Self {
                admit: true,
                reason: String::new(),
                message: String::new(),
                uid,
            },
            Admission::Reject { reason, message } => Self {
                admit: false,
                reason: reason.to_owned(),
                message,
                uid,
            },
        }
    }
}

pub(crate) fn is_critical_pod(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Out {
        critical: bool,
        r#static: bool,
        mirror: bool,
    }
    let pod = read::<PodIn>(input)?.pod.pod();
    let ours = Out {
        critical: critical::is_critical(&pod),
        r#static: critical::is_static(&pod),
        mirror: critical::is_mirror(&pod),
    };
    same("kinds of pod", &ours, &read(output)?)
}

pub(crate) fn pod_qos(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Out {
        computed: String,
        effective: String,
    }
    let pod = read::<PodIn>(input)?.pod.pod();
    let ours = Out {
        computed: qos::computed(&pod).to_string(),
        effective: qos::effective(&pod).to_owned(),
    };
    same("quality of service", &ours, &read(output)?)
}

/// The names that recordings use for parts of disk use. Images are a part that nothing measures.
pub(super) fn disk_parts(names: &[String]) -> DiskParts {
    let has = |name: &str| names.iter().any(|have| have == name);
    DiskParts {
        root: has("root"),
        logs: has("logs"),
        local_volumes: has("localVolumeSource"),
    }
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskUse {
    fs_types: Vec<String>,
    ephemeral_storage: i128,
    inodes: i128,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageOut {
    memory_working_set: i128,
    process_count: u64,
    request_memory: QuantityShape,
    request_ephemeral_storage: QuantityShape,
    request_cpu_m: i64,
    request_inodes: i64,
    disk_usage: Vec<DiskUse>,
    local_volumes: Vec<String>,
}

pub(crate) fn pod_usage(input: &Value, output: &Value) -> Result<(), Mismatch> {
    #[derive(Deserialize)]
    struct In {
        pod: PodShape,
        stats: PodStatsShape,
    }
    let case: In = read(input)?;
    let (pod, stats) = (case.pod.pod(), case.stats.stats());
    let recorded: UsageOut = read(output)?;
    let disk_use = |asked: &DiskUse| {
        let used = |resource| usage::disk(&pod, &stats, disk_parts(&asked.fs_types), resource);
        DiskUse {
            fs_types: asked.fs_types.clone(),
            ephemeral_storage: used(Resource::EphemeralStorage),
            inodes: used(Resource::Inodes),
        }
    };
    let local = pod.volumes.iter().filter(|volume| volume.is_local());
    let ours = UsageOut {
        memory_working_set: usage::memory_working_set(&stats),
        process_count: usage::process_count(&stats),
        request_memory: QuantityShape::of(&requests::memory(&pod)),
        request_ephemeral_storage: QuantityShape::of(&requests::ephemeral_storage(&pod)),
        request_cpu_m: requests::cpu(&pod).milli_value(),
        request_inodes: requests::of(&pod, Signal::NodeFsInodesFree.resource()).value(),
        disk_usage: recorded.disk_usage.iter().map(disk_use).collect(),
        local_volumes: local.map(|volume| volume.name.clone()).collect(),
    };
    same("use and requests", &ours, &recorded)
}
