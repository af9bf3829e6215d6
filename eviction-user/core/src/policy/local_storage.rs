//! Pods that break their own limits on local storage. Looked at in every cycle, whatever the node's
//! thresholds say; several may go at once.

use super::requests;
use super::usage::{self, DiskParts};
use crate::model::{
    Container, Eviction, EvictionCause, FsLayout, KillGrace, LocalStorageLimit, ObservedPod, Pod,
    PodStats, Quantity, Resource, VolumeSource,
};

/// Local storage evictions leave a pod one second.
const GRACE: KillGrace = KillGrace(1);

/// Evictions in the order of the pods; the first broken limit of a pod decides. Pods without stats
/// and those for which `is_spared` holds are passed over.
pub fn evictions(
    pods: &[ObservedPod],
    layout: FsLayout,
    is_spared: impl Fn(&Pod) -> bool,
) -> Vec<Eviction> {
    pods.iter()
        .filter_map(|observed| {
            let breach = breach(&observed.pod, observed.stats.as_ref()?, layout)?;
            (!is_spared(&observed.pod)).then(|| Eviction {
                pod: observed.pod.clone(),
                grace: GRACE,
                message: breach.message,
                annotations: Vec::new(),
                disruption_condition: false,
                cause: EvictionCause::LocalStorage(breach.limit),
            })
        })
        .collect()
}

/// All limits of a pod, each with the bytes up to which it holds: for whoever wants to know how near they are.
pub fn limits(pod: &Pod) -> Vec<(LocalStorageLimit, u64)> {
    let volumes = pod.volumes.iter().filter_map(|volume| {
        let limit = LocalStorageLimit::EmptyDir {
            volume: volume.name.clone(),
        };
        Some((limit, whole_bytes(size_limit(&volume.source)?)))
    });
    let whole = requests::ephemeral_storage_limit(pod);
    let whole = whole.map(|limit| (LocalStorageLimit::Pod, whole_bytes(&limit)));
    let containers = pod.containers.iter().filter_map(|container| {
        let limit = LocalStorageLimit::Container {
            name: container.name.clone(),
        };
        Some((limit, whole_bytes(container_limit(container)?)))
    });
    volumes.chain(whole).chain(containers).collect()
}

/// Use is counted in whole bytes: what is above these is above the quantity.
fn whole_bytes(limit: &Quantity) -> u64 {
    let bytes = limit.nanos().div_euclid(1_000_000_000).max(0);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Of an emptyDir of any medium. Zero is no limit.
fn size_limit(source: &VolumeSource) -> Option<&Quantity> {
    let VolumeSource::EmptyDir(dir) = source else {
        return None;
    };
    dir.size_limit.as_ref().filter(|limit| limit.sign().is_gt())
}

/// Zero is no limit.
fn container_limit(container: &Container) -> Option<&Quantity> {
    let limit = container.resources.limits.ephemeral_storage.as_ref();
    limit.filter(|limit| limit.value() != 0)
}

struct Breach {
    limit: LocalStorageLimit,
    message: String,
}

fn breach(pod: &Pod, stats: &PodStats, layout: FsLayout) -> Option<Breach> {
    empty_dir(pod, stats)
        .or_else(|| whole_pod(pod, stats))
        .or_else(|| container(pod, stats, layout))
}

/// The first emptyDir above its size limit.
fn empty_dir(pod: &Pod, stats: &PodStats) -> Option<Breach> {
    pod.volumes.iter().find_map(|volume| {
        let limit = size_limit(&volume.source)?;
        // Of several measurements by one name the last counts here (the first in ranking).
        let measured = stats
            .volumes
            .iter()
            .rev()
            .find(|measured| measured.name == volume.name)?;
        // The kubelet would crash on a missing number; we pass the volume over.
        let used = Quantity::binary(measured.fs.used?.cast_signed());
        let name = &volume.name;
        (used > *limit).then(|| Breach {
            limit: LocalStorageLimit::EmptyDir {
                volume: name.clone(),
            },
            message: format!("Usage of EmptyDir volume \"{name}\" exceeds the limit \"{limit}\". "),
        })
    })
}

/// All local storage against the sum of the containers' limits. Here zero is a limit.
fn whole_pod(pod: &Pod, stats: &PodStats) -> Option<Breach> {
    let limit = requests::ephemeral_storage_limit(pod)?;
    let used = stats
        .ephemeral_storage
        .and_then(|storage| storage.used)
        .unwrap_or(0);
    (Quantity::binary(used.cast_signed()) > limit).then(|| Breach {
        limit: LocalStorageLimit::Pod,
        message: format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        ),
    })
}

/// The first regular container, in the order of the measurements, above its own limit.
fn container(pod: &Pod, stats: &PodStats, layout: FsLayout) -> Option<Breach> {
    // A writable layer on another file system is not the node's own disk.
    let parts = DiskParts {
        root: !layout.dedicated_imagefs,
        logs: true,
        local_volumes: false,
    };
    stats.containers.iter().find_map(|measured| {
        let container = pod.containers.iter().rfind(|container| {
            container.name == measured.name
                && container.resources.limits.ephemeral_storage.is_some()
        })?;
        let limit = container_limit(container)?;
        let used = usage::container_disk(measured, parts, Resource::EphemeralStorage);
        let name = &measured.name;
        (used.saturating_mul(1_000_000_000) > limit.nanos()).then(|| Breach {
            limit: LocalStorageLimit::Container { name: name.clone() },
            message: format!(
                "Container {name} exceeded its local ephemeral storage limit \"{limit}\". "
            ),
        })
    })
}
