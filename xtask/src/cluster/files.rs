//! The configuration files of the components.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Cluster;
use super::images::PAUSE;
use super::parts::Parts;

/// Only root may read what is a key.
const SECRET: u32 = 0o600;

pub const NODE: &str = "node1";

/// Who may talk to the API server by a token of the list that it is given.
#[derive(Clone, Copy)]
pub(super) enum User {
    Admin,
    Node,
}

impl User {
    fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Node => "node",
        }
    }
}

pub(super) fn kubeconfig_path(folder: &Path, user: User) -> PathBuf {
    folder.join(format!("{}.kubeconfig", user.name()))
}

pub(super) fn write_all(cluster: &Cluster, parts: &Parts) -> Result<()> {
    let folder = &cluster.folder;
    for below in [
        "etcd",
        "pki",
        "cni/net.d",
        "cni/bin",
        "containerd",
        "node/kubelet",
        "node/logs",
        "manifests",
        "logs",
    ] {
        fs::create_dir_all(folder.join(below))?;
    }
    let (admin, node) = (token()?, token()?);
    // Token, user, id, groups.
    let list = format!(
        "{admin},admin,1,\"system:masters\"\n{node},system:node:{NODE},2,\"system:nodes\"\n"
    );
    write(&folder.join("pki/tokens.csv"), SECRET, &list)?;
    for (user, token) in [(User::Admin, admin), (User::Node, node)] {
        let config = kubeconfig(cluster.network.address, &token);
        let text = serde_json::to_string_pretty(&config)?;
        write(&kubeconfig_path(folder, user), SECRET, &text)?;
    }
    write_kubelet_config(cluster)?;
    let loopback = r#"{"cniVersion":"1.0.0","name":"lo","plugins":[{"type":"loopback"}]}"#;
    write(&folder.join("cni/net.d/99-lo.conflist"), 0o644, loopback)?;
    let runc = parts.program("runc")?;
    write(
        &folder.join("containerd.toml"),
        0o644,
        &containerd_config(cluster, &runc),
    )
}

pub(super) fn write_kubelet_config(cluster: &Cluster) -> Result<()> {
    // YAML is a superset of JSON, and the kubelet reads it as such.
    let kubelet = serde_json::to_string_pretty(&kubelet_config(cluster))?;
    write(&cluster.folder.join("kubelet.yaml"), 0o644, &kubelet)
}

pub(super) fn write_kubeconfig(cluster: &Cluster, name: &str, token: &str) -> Result<PathBuf> {
    let path = cluster.folder.join(format!("{name}.kubeconfig"));
    let config = kubeconfig(cluster.network.address, token);
    write(&path, SECRET, &serde_json::to_string_pretty(&config)?)?;
    Ok(path)
}

fn write(path: &Path, mode: u32, text: &str) -> Result<()> {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(mode)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}

/// 32 digits that nobody can guess.
fn token() -> Result<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(id.trim().replace('-', ""))
}

fn kubeconfig(server: Ipv4Addr, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {
            "server": format!("https://{server}:6443"),
            // The server makes its own certificate; its address belongs to a namespace that only we are in.
            "insecure-skip-tls-verify": true,
        }}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    })
}

fn kubelet_config(cluster: &Cluster) -> Value {
    let folder = cluster.folder.display();
    let mut config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cgroupDriver": "cgroupfs",
        // All pods are below our own cgroup.
        "cgroupRoot": format!("/{}", cluster.cgroup()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "makeIPTablesUtilChains": false,
        "enforceNodeAllocatable": [],
        "containerRuntimeEndpoint": format!("unix://{folder}/containerd/containerd.sock"),
        "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
        "authorization": {"mode": "AlwaysAllow"},
        "resolvConf": "",
        "staticPodPath": format!("{folder}/manifests"),
        // Far from anything that a test fills: who evicts is to be us.
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "maxPods": 130,
        "podLogsDir": cluster.pod_logs(),
    });
    for (key, value) in &cluster.kubelet {
        config[key] = value.clone();
    }
    config
}

fn containerd_config(cluster: &Cluster, runc: &Path) -> String {
    let root = cluster.runtime_root();
    let (folder, root, runc) = (cluster.folder.display(), root.display(), runc.display());
    format!(
        r#"version = 3
root = "{root}"
state = "{folder}/containerd/state"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
[grpc]
  address = "{folder}/containerd/containerd.sock"
[plugins."io.containerd.cri.v1.runtime"]
  # Without CAP_SYS_RESOURCE runc cannot lower it, and dies.
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{runc}"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{folder}/cni/bin"]
    conf_dir = "{folder}/cni/net.d"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE}"
"#
    )
}
