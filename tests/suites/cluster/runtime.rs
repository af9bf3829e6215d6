//! A runtime with a disk of its own: which disk that is it says itself, and what pods write to their layers counts on that one.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::http::get;
use eviction_tests::suite::{Case, Outcome};
use nix::sys::statvfs::statvfs;
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::api::text;
use crate::chart::{self, Release, decisions, logs, until_ready};
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "the runtime says where images and layers lie, and doctor whose lines hold there",
            || node::with_disks_apart(says_where),
        ),
        Case::new(
            "a pod that fills the runtime's disk by its layer goes, not who holds more on the node's",
            || node::with_disks_apart(fills_by_its_layer),
        ),
        Case::new(
            "a DaemonSet from the chart finds the runtime's disk through the kubelet's process",
            || node::with_disks_apart(from_the_chart),
        ),
        Case::new(
            "a runtime that does not answer holds nobody up, and is asked until it does",
            || node::with_disks_apart(silent),
        ),
    ]
}

const MIB: u64 = 1 << 20;
/// Left to others, and taken by the hog.
const ROOM: u64 = 120 * MIB;

/// As containerd itself tells: the snapshotter's directory.
fn images(node: &Node) -> Result<PathBuf> {
    let asked = ["plugins", "list", "--detailed", "id==overlayfs"];
    let told = node.cluster.run(&node.parts, "ctr", &asked)?;
    let mut words = told.split_whitespace().skip_while(|word| *word != "root");
    let path = words.nth(1).context(told.clone())?;
    // The directory that its configuration names.
    ensure!(
        Path::new(path).starts_with(node.cluster.runtime_root()),
        "{told}"
    );
    Ok(path.into())
}

fn free(disk: &Path) -> Result<u64> {
    let disk = statvfs(disk)?;
    Ok(disk.blocks_available() * disk.fragment_size())
}

fn says_where(node: &Node) -> Result<Outcome> {
    let images = images(node)?;
    let kubelet = node.cluster.kubelet_root();
    let asked = ["config", "kubelet", "--node-name", NODE, "--output=json"];
    let told = Command::new(&node.programs.eviction).args(asked).output()?;
    let told: Value = serde_json::from_slice(&told.stdout)?;
    let rows = told["settings"].as_array().context("no settings")?;
    let row = |key: &str| rows.iter().find(|row| row["key"] == key);
    let row = row("used as --imagefs").with_context(|| told.to_string())?;
    let socket = node.cluster.folder.join("containerd/containerd.sock");
    let source = format!(" at unix://{} (", socket.display());
    ensure!(
        row["value"] == *images.to_string_lossy()
            && text(row, "/source").starts_with("containerd ")
            && text(row, "/source").contains(&source),
        "{row}"
    );
    // As the kubelet sees it, which asks the runtime, too.
    let path = format!("/api/v1/nodes/{NODE}/proxy/stats/summary");
    let summary: Value = serde_json::from_str(&node.kubectl(&["get", "--raw", &path])?)?;
    let seen = statvfs(&images)?;
    let inodes = summary.pointer("/node/runtime/imageFs/inodes");
    let capacity = summary.pointer("/node/runtime/imageFs/capacityBytes");
    ensure!(
        capacity.and_then(Value::as_u64) == Some(seen.blocks() * seen.fragment_size())
            && inodes.and_then(Value::as_u64) == Some(seen.files()),
        "{summary}"
    );
    let doctor = Command::new(&node.programs.eviction)
        .args(["doctor", "--platform=kubernetes", "--output=json"])
        .output()?;
    let report: Value = serde_json::from_slice(&doctor.stdout)?;
    let checks = report["checks"].as_array().context("no checks")?;
    let of_runtime = checks
        .iter()
        .filter(|check| check["area"] == "container runtime");
    let said: Vec<_> = of_runtime.map(|check| text(check, "/detail")).collect();
    let [runtime, where_images, layers, reclaim] = said[..] else {
        anyhow::bail!("{said:?}");
    };
    let apart = format!(
        "imagefs is a file system of its own, nodefs is that of {}",
        kubelet.display()
    );
    ensure!(
        runtime.starts_with("containerd ")
            && where_images.starts_with(&format!("in {} (", images.display()))
            && where_images.ends_with(&apart)
            && layers == "with the images"
            && reclaim.starts_with("it can be asked to remove dead ones of its "),
        "{said:?}"
    );
    Ok(Outcome::Noted(runtime.to_owned()))
}

/// Has more on the node's disk than anybody on the runtime's.
fn holder() -> Wish {
    writing("holder", "/data/old", 3 * ROOM, 0)
}

fn writing(name: &'static str, file: &str, bytes: u64, a_second: u64) -> Wish {
    Wish {
        load: ["write", file, &bytes.to_string(), &a_second.to_string()]
            .map(str::to_owned)
            .into(),
        volume: Some("/data"),
        ..Wish::holding(name, 0)
    }
}

/// Who is there before, and the line that leaves the hog its room.
fn before(node: &Node) -> Result<([Wish; 2], String)> {
    let others = [holder(), writing("layer", "/old", 40 * MIB, 0)];
    for wish in &others {
        node.apply(&wish.pod())?;
    }
    for wish in &others {
        node.until_running("default", wish.name)?;
    }
    let disk = node.cluster.runtime_root();
    let left = node.until("the others have written", 60, |_| {
        let before = free(&disk)?;
        std::thread::sleep(Duration::from_secs(2));
        Ok((free(&disk)? == before).then_some(before))
    })?;
    ensure!(left > 2 * ROOM, "only {left} are left");
    Ok((others, format!("imagefs.available<{}", left - ROOM)))
}

fn hog() -> Wish {
    writing("hog", "/new", 2 * ROOM, 40 * MIB)
}

fn fills_by_its_layer(node: &Node) -> Result<Outcome> {
    let (others, line) = before(node)?;
    let state = tempfile::tempdir()?;
    // Else what earlier pods have left makes room for the hog.
    let told = ["--reclaim=off".to_owned()];
    let mut evictor = node.evictor_told(&told, &line, state.path())?;
    node.apply(&hog().pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    ensure!(
        decision.text("signal") == "imagefs.available",
        "{}",
        decision.0
    );
    evictor.wait_for("gone", Duration::from_secs(60))?;
    node.until_torn_down("default", "hog")?;
    for wish in &others {
        node.lives_on("default", wish.name)?;
    }
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 1, "{decisions} decisions");
    let (code, told) = evictor.terminate(Duration::from_secs(20))?;
    ensure!(code == Some(0), "{code:?}: {told}");
    let said = format!(": images are in {}, ", images(node)?.display());
    ensure!(told.matches(&said).count() == 1, "without {said}: {told}");
    let late = decision.number("available").unwrap_or(0);
    Ok(Outcome::Noted(format!("decided with {late} bytes left")))
}

fn from_the_chart(node: &Node) -> Result<()> {
    let folder = chart::folder(node)?;
    let (others, line) = before(node)?;
    let release = Release::install_with(node, &line, &json!({"reclaim": "off"}))?;
    let told = evicts(node, &others);
    std::fs::remove_dir_all(folder)?;
    release.uninstall(node)?;
    told
}

fn evicts(node: &Node, others: &[Wish]) -> Result<()> {
    until_ready(node, Release::NAME)?;
    let told = logs(node, Release::NAME);
    let said = format!("images are in {}, ", images(node)?.display());
    ensure!(told.contains(&said), "without {said}: {told}");
    // Half a dozen directories are gone through in a small part of that.
    std::thread::sleep(Duration::from_secs(5));
    node.apply(&hog().pod())?;
    let told = node.until("somebody goes", 60, |_| {
        let told = logs(node, Release::NAME);
        Ok(told.contains(r#""record":"gone""#).then_some(told))
    })?;
    let decisions = decisions(&told)?;
    let [decision] = &decisions[..] else {
        anyhow::bail!("{decisions:?}");
    };
    ensure!(text(decision, "/victim") == "hog", "{decision}");
    for wish in others {
        node.lives_on("default", wish.name)?;
    }
    Ok(())
}

fn silent(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    let socket = state.path().join("later.sock");
    let endpoint = format!("--container-runtime-endpoint=unix://{}", socket.display());
    let line = "memory.available<1Mi,imagefs.available<1Mi";
    let refused = node.evictor_told(std::slice::from_ref(&endpoint), line, state.path());
    let refused = refused
        .err()
        .map_or(String::new(), |error| format!("{error:#}"));
    ensure!(
        refused.contains("--imagefs is missing: ") && refused.contains("later.sock: No such file"),
        "{refused:?}"
    );
    let root = node.cluster.runtime_root();
    let root = format!("--runtime-root={}", root.display());
    let told = [endpoint, root.clone()];
    let mut evictor = node.evictor_told(&told, line, state.path())?;
    let started = evictor.wait_for("started", Duration::from_secs(1))?;
    let address = started.text("metrics").parse().context("no address")?;
    let until = |what: &str, said: &str| {
        node.until(what, 30, |_| {
            let told = get(address, "/readyz")?;
            let is_said = told.body.lines().any(|line| line.contains(said));
            Ok((told.status == 200 && is_said).then_some(()))
        })
    };
    until(
        "what is done without the runtime is said",
        &format!(
            "imagefs: {} by --runtime-root: the container runtime at unix://",
            node.cluster.runtime_root().display()
        ),
    )?;
    let real = node.cluster.folder.join("containerd/containerd.sock");
    symlink(real, &socket)?;
    until(
        "the runtime's answer is said",
        &format!("imagefs: {} by containerd ", images(node)?.display()),
    )
}
