//! From a cgroup's path to the pod and the container that it is, by the names that kubelets and runtimes give. Pure.
//!
//! The kubelet makes the levels down to the pod, in one of two spellings (its `cgroupDriver`); below, the runtime makes one
//! for each container and for the sandbox, which have the same form. What a container makes inside itself is the container's.
//! So the outermost pod on a path counts: nobody inside of one can make itself another.

use crate::model::QosClass;
use std::path::{Path, PathBuf};

/// The directory above all pods, in both drivers' spellings (kubelet `pkg/kubelet/cm/node_container_manager_linux.go`).
const PODS: &str = "kubepods";
const SLICE: &str = ".slice";
const SCOPE: &str = ".scope";
/// Container ids are SHA-256 sums or as long, in hexadecimal digits.
const ID_DIGITS: usize = 64;

/// The class that the level between [`PODS`] and the pods is for; Guaranteed pods have none.
fn class_of_level(level: &str) -> Option<QosClass> {
    match level {
        "burstable" => Some(QosClass::Burstable),
        "besteffort" => Some(QosClass::BestEffort),
        _ => None,
    }
}

/// A cgroup of a pod, or one below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// `metadata.uid`; of a static pod the annotation `kubernetes.io/config.hash` instead, which the kubelet knows it by.
    pub uid: String,
    pub qos: QosClass,
    /// The id of the container or of the sandbox, the same as in the runtime's interface (CRI). `None` for the pod's own cgroup
    /// and for what else runs there, such as CRI-O's monitor.
    pub container: Option<String>,
}

impl PodCgroup {
    /// `path`: from the root of the hierarchy, or from any directory above all pods.
    pub fn of(path: &str) -> Option<Self> {
        let levels: Vec<&str> = path.split('/').filter(|level| !level.is_empty()).collect();
        (0..levels.len()).find_map(|at| {
            let level = levels[at];
            // Kubelet and runtime that disagree about the driver: the runtime takes systemd's triple for a name.
            if let Some((slice, scope)) = level.split_once(':') {
                let (uid, qos) = systemd_pod(slice)?;
                let (_, id) = scope.split_once(':')?;
                return Some(Self::new(uid, qos, container_id(id)));
            }
            let (uid, qos) = systemd_pod(level).or_else(|| cgroupfs_pod(&levels[..at], level))?;
            let container = levels.get(at + 1).and_then(|level| container(level));
            Some(Self::new(uid, qos, container))
        })
    }

    fn new(uid: String, qos: QosClass, container: Option<&str>) -> Self {
        Self {
            uid,
            qos,
            container: container.map(str::to_owned),
        }
    }
}

/// Where the cgroup of the pod may be, below the one of this name that holds all pods: a name for each class of service. To be
/// opened directly: a walk over all pods takes too long between a decision and its kill.
pub(super) fn places(pods: &str, uid: &str) -> Vec<PathBuf> {
    if !is_uid(uid) {
        return Vec::new();
    }
    match pods.strip_suffix(SLICE) {
        None => ["", "burstable", "besteffort"]
            .map(|class| Path::new(class).join(format!("pod{uid}")))
            .into(),
        Some(pods) => {
            let pod = format!("pod{}{SLICE}", uid.replace('-', "_"));
            let of_class = |class| {
                let class = format!("{pods}-{class}");
                Path::new(&format!("{class}{SLICE}")).join(format!("{class}-{pod}"))
            };
            vec![
                PathBuf::from(format!("{pods}-{pod}")),
                of_class("burstable"),
                of_class("besteffort"),
            ]
        }
    }
}

/// `[PREFIX-]kubepods[-QOS]-podUID.slice`, with the dashes of the UID written as underscores: a dash means a level to systemd.
fn systemd_pod(level: &str) -> Option<(String, QosClass)> {
    let name = level.strip_suffix(SLICE)?;
    let (above, uid) = name.rsplit_once("-pod")?;
    let level_above = above.rsplit_once('-');
    let (pods, qos) = level_above
        .and_then(|(pods, level)| Some((pods, class_of_level(level)?)))
        .unwrap_or((above, QosClass::Guaranteed));
    let is_root = pods == PODS || pods.strip_suffix(PODS).is_some_and(|p| p.ends_with('-'));
    let uid = uid.replace('_', "-");
    (is_root && is_uid(&uid)).then_some((uid, qos))
}

/// `kubepods/[QOS/]podUID`
fn cgroupfs_pod(above: &[&str], level: &str) -> Option<(String, QosClass)> {
    let uid = level.strip_prefix("pod").filter(|uid| is_uid(uid))?;
    let qos = match above {
        [.., PODS] => QosClass::Guaranteed,
        [.., PODS, level] => class_of_level(level)?,
        _ => return None,
    };
    Some((uid.to_owned(), qos))
}

/// UUIDs, hashes of manifests, and whatever a manifest of a static pod has as its `uid`. Never a way out of a directory.
pub(super) fn is_uid(uid: &str) -> bool {
    !uid.is_empty()
        && !uid.bytes().all(|byte| byte == b'.')
        && uid
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}

/// `ID`, `RUNTIME-ID` or `RUNTIME-ID.scope`. With crun another level lies below, which changes nothing.
fn container(level: &str) -> Option<&str> {
    let name = level.strip_suffix(SCOPE).unwrap_or(level);
    match name.rsplit_once('-') {
        // CRI-O's monitor of a container runs beside it, under its id.
        Some(("crio-conmon", _)) => None,
        Some((_, id)) => container_id(id),
        None => container_id(name),
    }
}

fn container_id(id: &str) -> Option<&str> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (id.len() == ID_DIGITS && id.bytes().all(is_digit)).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "5f2a9c7d81e0b3466f8a1d2c3b4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60";
    const UID: &str = "7c1b2f5e-3a94-4d0b-9c58-1f2e3d4c5b6a";
    const HASH: &str = "ba1c3f0e9d2b4a6c8e7f5d3c1b0a9988";

    fn found(path: &str) -> Option<(String, QosClass, Option<String>)> {
        let path = path
            .replace("{id}", ID)
            .replace("{uid}", UID)
            .replace("{uid_}", &UID.replace('-', "_"))
            .replace("{hash}", HASH);
        PodCgroup::of(&path).map(|pod| (pod.uid, pod.qos, pod.container))
    }

    #[test]
    fn pods_and_containers_by_driver_and_runtime() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        let id = Some(ID);
        for (path, uid, qos, container) in [
            // cgroupfs: measured with kubelet 1.36 and containerd 2.4 on cgroup v1, where each controller has the same tree
            ("/kubepods/pod{uid}", UID, Guaranteed, None),
            ("/kubepods/pod{uid}/{id}", UID, Guaranteed, id),
            ("/kubepods/burstable/pod{uid}/{id}", UID, Burstable, id),
            ("/kubepods/besteffort/pod{uid}/{id}", UID, BestEffort, id),
            (
                "/kubepods/besteffort/pod{uid}/{id}/init/sub",
                UID,
                BestEffort,
                id,
            ),
            // static pods: the hash of the manifest, or the uid that it names
            ("/kubepods/burstable/pod{hash}/{id}", HASH, Burstable, id),
            (
                "/kubepods/besteffort/podmy-own.1",
                "my-own.1",
                BestEffort,
                None,
            ),
            // systemd with containerd
            (
                "/kubepods.slice/kubepods-pod{uid_}.slice",
                UID,
                Guaranteed,
                None,
            ),
            (
                "/kubepods.slice/kubepods-pod{uid_}.slice/cri-containerd-{id}.scope",
                UID,
                Guaranteed,
                id,
            ),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid_}.slice/cri-containerd-{id}.scope",
                UID,
                Burstable,
                id,
            ),
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{hash}.slice/cri-containerd-{id}.scope",
                HASH,
                BestEffort,
                id,
            ),
            // CRI-O: with runc, with crun one level deeper, and its monitor
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid_}.slice/crio-{id}.scope",
                UID,
                Burstable,
                id,
            ),
            (
                "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid_}.slice/crio-{id}.scope/container",
                UID,
                Burstable,
                id,
            ),
            (
                "/kubepods.slice/kubepods-pod{uid_}.slice/crio-conmon-{id}.scope",
                UID,
                Guaranteed,
                None,
            ),
            ("/kubepods/burstable/pod{uid}/crio-{id}", UID, Burstable, id),
            // cri-dockerd
            (
                "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid_}.slice/docker-{id}.scope",
                UID,
                BestEffort,
                id,
            ),
            ("/kubepods/besteffort/pod{uid}/{id}", UID, BestEffort, id),
            // `cgroupRoot`, and nodes in containers (kind): below another container, in either spelling
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/kubelet-kubepods-burstable-pod{uid_}.slice/cri-containerd-{id}.scope",
                UID,
                Burstable,
                id,
            ),
            (
                "/system.slice/docker-{id}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{uid_}.slice/cri-containerd-{id}.scope",
                UID,
                Guaranteed,
                id,
            ),
            (
                "/docker/{id}/kubelet/kubepods/besteffort/pod{uid}/{id}",
                UID,
                BestEffort,
                id,
            ),
            // a runtime that was not told of the kubelet's systemd driver
            (
                "/system.slice/containerd.service/kubepods-burstable-pod{uid_}.slice:cri-containerd:{id}",
                UID,
                Burstable,
                id,
            ),
        ] {
            let expected = (uid.to_owned(), qos, container.map(str::to_owned));
            assert_eq!(found(path), Some(expected), "{path}");
        }
    }

    #[test]
    fn nobody_in_a_pod_can_pass_for_another() {
        let inside = "/kubepods/burstable/pod{uid}/{id}/kubepods/pod{hash}/{id}";
        let slice =
            "/kubepods.slice/kubepods-pod{uid_}.slice/crio-{id}.scope/kubepods-pod{hash}.slice";
        for path in [inside, slice] {
            assert_eq!(found(path).map(|pod| pod.0).as_deref(), Some(UID), "{path}");
        }
    }

    #[test]
    fn what_is_no_pod_is_none() {
        for path in [
            "/",
            "/kubepods",
            "/kubepods/burstable",
            "/kubepods.slice/kubepods-burstable.slice",
            "/system.slice/kubelet.service",
            "/system.slice/docker-{id}.scope",
            "/docker/{id}",
            "/machine.slice/libpod-{id}.scope/container",
            // Made by somebody else
            "/user.slice/pod{uid}/{id}",
            "/kubepods/other/pod{uid}",
            "/kubepods/pod",
            "/kubepods/podium of a/b",
            "/notkubepods.slice/notkubepods-pod{uid_}.slice",
            "/kubepods.slice/kubepods-burstable-pod.slice",
        ] {
            assert_eq!(found(path), None, "{path}");
        }
    }

    #[test]
    fn the_places_of_a_pod_are_those_that_it_is_known_by() {
        use QosClass::{BestEffort, Burstable, Guaranteed};
        for pods in ["kubepods", "kubepods.slice", "kubelet-kubepods.slice"] {
            let places = places(pods, UID);
            let known = places.iter().map(|place| {
                let path = Path::new("/").join(pods).join(place);
                PodCgroup::of(path.to_str().unwrap()).map(|pod| (pod.uid, pod.qos, pod.container))
            });
            let expected =
                [Guaranteed, Burstable, BestEffort].map(|qos| Some((UID.to_owned(), qos, None)));
            assert_eq!(known.collect::<Vec<_>>(), expected, "{pods}");
        }
    }
}
