//! The guest's disk: all that a node needs, at its usual place.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::json;

use super::super::files::{self, GUEST_NODE, LOOPBACK, User, kubeconfig_path};
use super::super::places::Places;
use super::super::{Cluster, Disk, Parts, images};
use super::{KUBELET_PORT, SHELL_PORT, stock};
use crate::image;
use crate::process::capture;
use crate::vm::UserNetwork;
use crate::workspace::Workspace;

const SCRIPT: &str = include_str!("node.sh");
const BUSYBOX: &str = "/bin/busybox";
pub(super) const KUBELET_CONFIG: &str = "/etc/kubernetes/kubelet.yaml";
pub(super) const KUBELET: &str = "/var/lib/kubelet";
const PROGRAMS: [&str; 4] = ["containerd", "containerd-shim-runc-v2", "kubelet", "runc"];

/// What a guest's node is to have of ours.
#[derive(Clone, Copy, Debug)]
pub struct Software<'a> {
    /// The static `eviction-load`.
    pub load: &'a Path,
    /// The archive of our own image.
    pub image: &'a Path,
    /// More programs, static ones, for scripts.
    pub tools: &'a [PathBuf],
    /// Memory that pods do not get.
    pub reserved_mib: u64,
    pub disk: Disk,
}

/// The disk as a file.
pub(super) fn disk(
    workspace: &Workspace,
    cluster: &Cluster,
    parts: &Parts,
    network: &UserNetwork,
    software: &Software<'_>,
) -> Result<PathBuf> {
    let folder = cluster.folder.join("guest");
    let root = folder.join("root");
    fill(&root, workspace, cluster, parts, software)?;
    let mut archives = Vec::from(images::archives(workspace, software.load, &folder)?);
    archives.push(software.image.to_owned());
    stock::fill(cluster, parts, &root, &folder, &archives)
        .context("its images cannot be put there")?;
    let settings = format!(
        "NODE={GUEST_NODE}\nADDRESS={}\nPREFIX={}\nGATEWAY={}\nSHELL_PORT={SHELL_PORT}\n",
        network.guest, network.prefix, network.gateway
    );
    files::write(&root.join("etc/node"), 0o644, &settings)?;
    let image = folder.join("disk.img");
    let file = fs::File::create(&image)?;
    file.set_len(software.disk.bytes)?;
    let inodes = software.disk.inodes.to_string();
    capture(
        Command::new("mke2fs")
            .args(["-q", "-F", "-t", "ext4", "-m", "0", "-N", &inodes, "-d"])
            .args([&root, &image]),
    )?;
    fs::remove_dir_all(root)?;
    Ok(image)
}

fn fill(
    root: &Path,
    workspace: &Workspace,
    cluster: &Cluster,
    parts: &Parts,
    software: &Software<'_>,
) -> Result<()> {
    for below in [
        "bin",
        "dev",
        "etc/cni/bin",
        "etc/cni/net.d",
        "etc/kubernetes/manifests",
        "proc",
        "root",
        "run",
        "sys",
        "tmp",
        "var/lib/kubelet",
        "var/log/pods",
    ] {
        fs::create_dir_all(root.join(below))?;
    }
    let copy = |program: &Path, name: &str| -> Result<()> {
        let place = root.join("bin").join(name);
        fs::copy(program, &place).with_context(|| format!("cannot copy {}", program.display()))?;
        Ok(fs::set_permissions(
            &place,
            fs::Permissions::from_mode(0o755),
        )?)
    };
    copy(Path::new(BUSYBOX), "busybox")?;
    for name in PROGRAMS {
        copy(&parts.program(name)?, name)?;
    }
    for tool in software.tools {
        let name = tool.file_name().context("a program without a name")?;
        image::strip(workspace, tool, &root.join("bin").join(name))?;
    }
    let kubeconfig = kubeconfig_path(&cluster.folder, User::Guest);
    fs::copy(kubeconfig, root.join("etc/kubernetes/kubelet.kubeconfig"))?;

    let places = Places::usual();
    let more = [
        ("port", json!(KUBELET_PORT)),
        ("enforceNodeAllocatable", json!(["pods"])),
        (
            "kubeReserved",
            json!({"memory": format!("{}Mi", software.reserved_mib)}),
        ),
    ];
    let more = more.map(|(key, value)| (key.to_owned(), value)).into();
    let kubelet = serde_json::to_string_pretty(&places.kubelet_config(&more))?;
    let containerd = places.containerd_config(Path::new("/bin/runc"));
    // The kubelet stops without passwd, a sandbox without hosts.
    for (place, text) in [
        ("node.sh", SCRIPT),
        (KUBELET_CONFIG.trim_start_matches('/'), &kubelet),
        ("etc/containerd.toml", &containerd),
        ("etc/cni/net.d/99-lo.conflist", LOOPBACK),
        ("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"),
        ("etc/group", "root:x:0:\n"),
        ("etc/hosts", "127.0.0.1 localhost\n"),
        ("etc/hostname", &format!("{GUEST_NODE}\n")),
        ("etc/machine-id", "0123456789abcdef0123456789abcdef\n"),
        ("etc/os-release", "ID=guest\nPRETTY_NAME=guest\n"),
        ("etc/resolv.conf", ""),
    ] {
        files::write(&root.join(place), 0o644, text)?;
    }
    Ok(())
}
