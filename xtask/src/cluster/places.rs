//! Where a node keeps what, and the kubelet's and the runtime's configuration that says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Cluster;
use super::images::PAUSE;

pub(super) struct Places {
    /// The cgroup that the pods' own is in.
    cgroup_root: String,
    /// The runtime's images and writable layers.
    images: PathBuf,
    /// The runtime's state and socket.
    runtime: PathBuf,
    pub(super) network_plugins: PathBuf,
    pub(super) manifests: PathBuf,
    pod_logs: PathBuf,
}

impl Places {
    /// On this machine: all below the cluster's folder.
    pub(super) fn native(cluster: &Cluster) -> Self {
        let folder = &cluster.folder;
        Self {
            // All pods are below our own cgroup.
            cgroup_root: format!("/{}", cluster.cgroup()),
            images: cluster.runtime_root(),
            runtime: folder.join("containerd"),
            network_plugins: folder.join("cni"),
            manifests: folder.join("manifests"),
            pod_logs: cluster.pod_logs(),
        }
    }

    /// In a guest, which has nothing else: where everybody has it.
    pub(super) fn usual() -> Self {
        Self {
            cgroup_root: "/".to_owned(),
            images: "/var/lib/containerd".into(),
            runtime: "/run/containerd".into(),
            network_plugins: "/etc/cni".into(),
            manifests: "/etc/kubernetes/manifests".into(),
            pod_logs: "/var/log/pods".into(),
        }
    }

    /// While the images are put on a guest's disk, which is `root` until then; no pod runs there.
    pub(super) fn of_stock(root: &Path, folder: &Path) -> Self {
        let usual = Self::usual();
        let images = usual.images.strip_prefix("/").unwrap_or(&usual.images);
        Self {
            images: root.join(images),
            runtime: folder.join("runtime"),
            ..usual
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.runtime.join("containerd.sock")
    }

    /// `more`: keys that replace others or come beside them. As JSON: YAML is a superset of it, and the kubelet reads it as such.
    pub(super) fn kubelet_config(&self, more: &BTreeMap<String, Value>) -> Value {
        let socket = self.socket();
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self.cgroup_root,
            "failCgroupV1": false,
            "failSwapOn": false,
            "makeIPTablesUtilChains": false,
            "enforceNodeAllocatable": [],
            "containerRuntimeEndpoint": format!("unix://{}", socket.display()),
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "resolvConf": "",
            "staticPodPath": self.manifests,
            // Far from anything that a test fills: who evicts is to be us.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "maxPods": 130,
            "podLogsDir": self.pod_logs,
        });
        for (key, value) in more {
            config[key] = value.clone();
        }
        config
    }

    pub(super) fn containerd_config(&self, runc: &Path) -> String {
        let (root, state) = (self.images.display(), self.runtime.join("state"));
        let socket = self.socket();
        let (state, socket) = (state.display(), socket.display());
        let (plugins, runc) = (self.network_plugins.display(), runc.display());
        format!(
            r#"version = 3
root = "{root}"
state = "{state}"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
[grpc]
  address = "{socket}"
[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE runc cannot lower it, and dies.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{plugins}/bin"]
    conf_dir = "{plugins}/net.d"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
"#
        )
    }
}
