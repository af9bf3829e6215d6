//! The configuration files of the components.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::Cluster;
use super::parts::Parts;
use super::places::Places;

/// Only root may read what is a key.
const SECRET: u32 = 0o600;

/// Pods need no network of their own.
pub(super) const LOOPBACK: &str =
    r#"{"cniVersion":"1.0.0","name":"lo","plugins":[{"type":"loopback"}]}"#;

pub const NODE: &str = "node1";
/// The node in a guest, where there is one.
pub const GUEST_NODE: &str = "node2";

/// Who may talk to the API server by a token of the list that it is given.
#[derive(Clone, Copy)]
pub(super) enum User {
    Admin,
    Node,
    Guest,
}

impl User {
    fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Node => "node",
            Self::Guest => "guest",
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
    let (admin, node, guest) = (token()?, token()?, token()?);
    // Token, user, id, groups.
    let list = format!(
        "{admin},admin,1,\"system:masters\"\n{node},system:node:{NODE},2,\"system:nodes\"\n\
         {guest},system:node:{GUEST_NODE},3,\"system:nodes\"\n"
    );
    write(&folder.join("pki/tokens.csv"), SECRET, &list)?;
    for (user, token) in [
        (User::Admin, admin),
        (User::Node, node),
        (User::Guest, guest),
    ] {
        let config = kubeconfig(cluster.network.address, &token);
        let text = serde_json::to_string_pretty(&config)?;
        write(&kubeconfig_path(folder, user), SECRET, &text)?;
    }
    write_kubelet_config(cluster)?;
    let places = Places::native(cluster);
    let loopback = places.network_plugins.join("net.d/99-lo.conflist");
    write(&loopback, 0o644, LOOPBACK)?;
    let runc = parts.program("runc")?;
    write(
        &folder.join("containerd.toml"),
        0o644,
        &places.containerd_config(&runc),
    )
}

pub(super) fn write_kubelet_config(cluster: &Cluster) -> Result<()> {
    let config = Places::native(cluster).kubelet_config(&cluster.kubelet);
    write(
        &cluster.folder.join("kubelet.yaml"),
        0o644,
        &serde_json::to_string_pretty(&config)?,
    )
}

pub(super) fn write_kubeconfig(cluster: &Cluster, name: &str, token: &str) -> Result<PathBuf> {
    let path = cluster.folder.join(format!("{name}.kubeconfig"));
    let config = kubeconfig(cluster.network.address, token);
    write(&path, SECRET, &serde_json::to_string_pretty(&config)?)?;
    Ok(path)
}

pub(super) fn write(path: &Path, mode: u32, text: &str) -> Result<()> {
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
