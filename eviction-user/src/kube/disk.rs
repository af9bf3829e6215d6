//! Where a pod's files lie on its node: its volumes, its logs and the writable layers of its containers.

use super::identity::is_uid;
use super::known::Listed;
use crate::host::{ScanTarget, Targets};
use crate::model::Pod;
use crate::sys::mount::Mount;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// The node's directories for pods.
#[derive(Debug, Clone)]
pub struct PodPlaces {
    /// The kubelet's (`--root-dir`): volumes lie below.
    pub kubelet: PathBuf,
    /// Of the kubelet and the runtime (`podLogsDir`).
    pub logs: PathBuf,
}

/// Of emptyDir volumes, below a pod's directory (kubelet `pkg/volume/emptydir`).
const VOLUMES: &str = "volumes/kubernetes.io~empty-dir";

impl PodPlaces {
    pub(super) fn pod(&self, uid: &str) -> PathBuf {
        self.kubelet.join("pods").join(uid)
    }

    pub(super) fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join(VOLUMES).join(name)
    }

    /// Of the pod; those of its containers are below.
    pub(super) fn logs(&self, pod: &Pod, uid: &str) -> PathBuf {
        let name = format!("{}_{}_{uid}", pod.namespace, pod.name);
        self.logs.join(name)
    }

    /// Has the pod volumes that end with it?
    pub(super) fn has_volumes(&self, uid: &str) -> bool {
        // Where the kubelet's directory is not to be seen nothing is known, and nothing waited for.
        is_uid(uid)
            && std::fs::read_dir(self.pod(uid).join(VOLUMES))
                .is_ok_and(|mut volumes| volumes.next().is_some())
    }
}

/// The mounts of the node, also for a process in a container.
const MOUNTS: &str = "/proc/1/mountinfo";

pub(super) fn targets(listed: watch::Receiver<Arc<Listed>>, places: PodPlaces) -> Targets {
    Box::new(move || {
        let layers = layers_now();
        let listed = Arc::clone(&listed.borrow());
        of_all(&listed, &places, &layers)
    })
}

pub(super) fn layers_now() -> BTreeMap<String, PathBuf> {
    layers(&Mount::all(Path::new(MOUNTS)).unwrap_or_default())
}

/// The writable layers by the ids of their containers, as far as the mount point tells the id, as containerd's does:
/// `STATE/io.containerd.runtime.v2.task/k8s.io/ID/rootfs`.
fn layers(mounts: &[Mount]) -> BTreeMap<String, PathBuf> {
    let layer = |mount: &Mount| {
        let id = mount.point.parent()?.file_name()?.to_str()?.to_owned();
        Some((id, PathBuf::from(mount.option("upperdir")?)))
    };
    mounts.iter().filter_map(layer).collect()
}

/// What is mounted below a pod's directory (other disks, secrets in memory) is not its own.
fn of_all(
    listed: &Listed,
    places: &PodPlaces,
    layers: &BTreeMap<String, PathBuf>,
) -> Vec<ScanTarget> {
    let mut targets = Vec::new();
    let running = listed
        .pods
        .iter()
        .filter(|(uid, known)| is_uid(uid) && !known.has_ended);
    for (uid, known) in running {
        let dirs = [places.pod(uid), places.logs(&known.pod, uid)];
        let layers = known.containers.keys().filter_map(|id| layers.get(id));
        let dirs = dirs.into_iter().chain(layers.cloned());
        targets.extend(dirs.map(|dir| ScanTarget {
            workload: uid.clone(),
            dir,
        }));
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::super::known::KnownPod;
    use super::*;
    use serde_json::{Value, json};

    const ID: &str = "5f2a9c7d81e0b3466f8a1d2c3b4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60";

    fn pod(
        name: &str,
        uid: &str,
        annotations: Value,
        phase: &str,
    ) -> k8s_openapi::api::core::v1::Pod {
        let pod = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": uid, "annotations": annotations},
            "status": {"phase": phase, "containerStatuses": [
                {"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": format!("containerd://{ID}")},
                {"name": "d", "image": "i", "imageID": "", "ready": true, "restartCount": 0, "containerID": "containerd://not-mounted"},
            ]},
        });
        serde_json::from_value(pod).unwrap()
    }

    #[test]
    fn volumes_logs_and_layers_of_pods_that_have_not_ended_static_ones_by_their_hash() {
        let mut listed = Listed::default();
        let hash =
            json!({"kubernetes.io/config.hash": "ba1c", "kubernetes.io/config.mirror": "ba1c"});
        for pod in [
            pod("web-0", "u1", json!({}), "Running"),
            pod("dns-node1", "u2", hash, "Running"),
            pod("gone", "u3", json!({}), "Failed"),
            pod(
                "evil",
                "u4",
                json!({"kubernetes.io/config.hash": "../..", "kubernetes.io/config.mirror": "x"}),
                "Running",
            ),
            pod(
                "worse",
                "u5",
                json!({"kubernetes.io/config.hash": "..", "kubernetes.io/config.mirror": "x"}),
                "Running",
            ),
        ] {
            let known = KnownPod::of(&pod);
            listed
                .pods
                .insert(known.cgroup_uid().to_owned(), Arc::new(known));
        }
        let mounted = format!(
            "90 1 0:51 / /run/containerd/io.containerd.runtime.v2.task/k8s.io/{ID}/rootfs rw - overlay overlay rw,lowerdir=/a:/b,upperdir=/var/lib/containerd/s/1/fs,workdir=/w\n91 1 0:52 / /proc rw - proc proc rw"
        );
        let layers = layers(&Mount::parse_all(&mounted));
        let places = PodPlaces {
            kubelet: "/var/lib/kubelet".into(),
            logs: "/var/log/pods".into(),
        };
        let found: Vec<_> = of_all(&listed, &places, &layers)
            .into_iter()
            .map(|target| (target.workload, target.dir.display().to_string()))
            .collect();
        let expected = [
            ("ba1c", "/var/lib/kubelet/pods/ba1c"),
            ("ba1c", "/var/log/pods/shop_dns-node1_ba1c"),
            ("ba1c", "/var/lib/containerd/s/1/fs"),
            ("u1", "/var/lib/kubelet/pods/u1"),
            ("u1", "/var/log/pods/shop_web-0_u1"),
            ("u1", "/var/lib/containerd/s/1/fs"),
        ];
        let expected = expected.map(|(uid, dir)| (uid.to_owned(), dir.to_owned()));
        assert_eq!(found, expected);
    }
}
