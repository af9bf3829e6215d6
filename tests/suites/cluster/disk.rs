//! Pods that use up the node's disk: its bytes, its inodes, by a volume and by a writable layer.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::{Case, Outcome};
use nix::sys::statvfs::statvfs;

use crate::api::{check_on_record, text};
use crate::chart::{self, Release, decisions, logs, until_ready};
use crate::node::{self, Node};
use crate::pods::Wish;
use crate::reclaim::ctr;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a pod that fills the disk by a volume goes", || {
            node::with(|node| fill(node, &BYTES_IN_A_VOLUME))
        }),
        Case::new(
            "a pod that fills the disk by its writable layer goes, and its object too",
            || node::with(|node| with_right_to_delete(node, |node| fill(node, &BYTES_IN_A_LAYER))),
        ),
        Case::new(
            "what a layer held before a DaemonSet counts, and is free with its object",
            || node::with(held_before),
        ),
        Case::new("a disk that stays full takes no second pod", || {
            node::with(stays_full)
        }),
        Case::new("a pod that uses up the inodes of the disk goes", || {
            node::with(|node| fill(node, &INODES_IN_A_VOLUME))
        }),
    ]
}

const MIB: u64 = 1 << 20;
/// So much lay there when it all began: not to be counted as growth, and less than a hog takes.
const OLD_MIB: u64 = 40;

struct Filling {
    signal: &'static str,
    resource: &'static str,
    /// Where the hog writes.
    place: &'static str,
    /// Left to others, and taken by the hog: bytes or files.
    room: u64,
    a_second: u64,
    /// The kubelet keeps a dead container's layer until the pod's object goes.
    deletes: bool,
}

const BYTES_IN_A_VOLUME: Filling = Filling {
    signal: "nodefs.available",
    resource: "ephemeral-storage",
    place: "/data/new",
    room: 120 * MIB,
    a_second: 40 * MIB,
    deletes: false,
};

const BYTES_IN_A_LAYER: Filling = Filling {
    place: "/new",
    deletes: true,
    ..BYTES_IN_A_VOLUME
};

const INODES_IN_A_VOLUME: Filling = Filling {
    signal: "nodefs.inodesFree",
    resource: "inodes",
    place: "/data/new",
    room: 3_000,
    a_second: 1_000,
    deletes: false,
};

impl Filling {
    fn is_inodes(&self) -> bool {
        self.resource == "inodes"
    }

    fn left(&self, disk: &Path) -> Result<u64> {
        let disk = statvfs(disk)?;
        Ok(if self.is_inodes() {
            disk.files_available()
        } else {
            disk.blocks_available() * disk.fragment_size()
        })
    }

    fn hog(&self) -> Wish {
        self.taking(4 * self.room)
    }

    fn taking(&self, amount: u64) -> Wish {
        let rate = self.a_second;
        let what = if self.is_inodes() { "inodes" } else { "write" };
        let load = [
            what.to_owned(),
            self.place.to_owned(),
            amount.to_string(),
            rate.to_string(),
        ];
        Wish {
            load: load.into(),
            volume: Some("/data"),
            ..Wish::holding("hog", 0)
        }
    }
}

/// Has more on the disk than the hog needs to take for the line to be crossed, though not more than it then has.
fn old(name: &'static str, file: &'static str, mib: u64) -> Wish {
    Wish {
        load: ["write", file, &(mib * MIB).to_string(), "0"]
            .map(str::to_owned)
            .into(),
        volume: Some("/data"),
        ..Wish::holding(name, 0)
    }
}

/// The node with pods on it that have taken of the disk before, and the line that is then left to the hog.
struct Before {
    others: [Wish; 3],
    left: u64,
    line: String,
}

fn before(node: &Node, filling: &Filling) -> Result<Before> {
    let disk = node.cluster.kubelet_root();
    let others = [
        old("old-volume", "/data/old", OLD_MIB),
        old("old-layer", "/old", OLD_MIB),
        Wish {
            namespace: "kube-system",
            class: Some("system-node-critical"),
            ..old("critical", "/data/old", 3 * OLD_MIB)
        },
    ];
    for wish in &others {
        node.apply(&wish.pod())?;
    }
    for wish in &others {
        node.until_running(wish.namespace, wish.name)?;
    }
    // Written back, and the last story's removed.
    node.until("the others have written", 60, |_| {
        let before = filling.left(&disk)?;
        std::thread::sleep(Duration::from_secs(2));
        Ok((filling.left(&disk)? == before).then_some(()))
    })?;
    let left = filling.left(&disk)?;
    ensure!(
        left > 3 * filling.room,
        "only {left} are left of the node's disk"
    );
    let line = format!("{}<{}", filling.signal, left - filling.room);
    Ok(Before { others, left, line })
}

fn fill(node: &Node, filling: &Filling) -> Result<Outcome> {
    let disk = node.cluster.kubelet_root();
    let Before { others, left, line } = before(node, filling)?;
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_of_disks(&line, filling.deletes, state.path())?;
    node.apply(&filling.hog().pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    let taken = (left - filling.room).saturating_sub(decision.number("available").unwrap_or(0));
    let gone = evictor.wait_for("gone", Duration::from_secs(60))?;
    if filling.deletes {
        node.until("the object is deleted", 30, |node| {
            let left = node.get(&["pods", "--field-selector=metadata.name=hog"])?;
            let none = left["items"].as_array().is_some_and(Vec::is_empty);
            Ok(none.then_some(()))
        })?;
    } else {
        let pod = node.until_torn_down("default", "hog")?;
        let message = check_on_record(&pod)?;
        let expected = format!(
            "The node was low on resource: {}. Threshold quantity: ",
            filling.resource
        );
        ensure!(message.starts_with(&expected), "{message}");
    }
    node.until("the disk is as free as before", 60, |_| {
        Ok((filling.left(&disk)? + filling.room / 4 > left).then_some(()))
    })?;
    for wish in &others {
        node.lives_on(wish.namespace, wish.name)?;
    }
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 1, "{decisions} decisions");
    let after = gone.number("after_us").unwrap_or(0) / 1000;
    let unit = if filling.is_inodes() {
        "inodes"
    } else {
        "bytes"
    };
    Ok(Outcome::Noted(format!(
        "{taken} {unit} past the line, done with {after} ms after the decision"
    )))
}

/// Who crosses the line takes less than another one has from before, in its writable layer: that one goes. By the chart's pod,
/// which sees the node's directories through its own mounts only.
fn held_before(node: &Node) -> Result<()> {
    let filling = &BYTES_IN_A_VOLUME;
    let big = old("big", "/old", 2 * filling.room / MIB);
    node.apply(&big.pod())?;
    node.until_running(big.namespace, big.name)?;
    let folder = chart::folder(node)?;
    let Before { others, line, left } = before(node, filling)?;
    let release = Release::install(node, &line, "delete")?;
    let told = goes_for_its_layer(node, filling, &others, left);
    std::fs::remove_dir_all(folder)?;
    release.uninstall(node)?;
    told
}

fn goes_for_its_layer(node: &Node, filling: &Filling, others: &[Wish], left: u64) -> Result<()> {
    until_ready(node, Release::NAME)?;
    // The directories of five pods are gone through in a small part of that.
    std::thread::sleep(Duration::from_secs(5));
    // Just past the line, and then no more: somebody who fills on would go, too.
    node.apply(&filling.taking(filling.room + 4 * MIB).pod())?;
    let told = node.until("somebody goes", 60, |_| {
        let told = logs(node, Release::NAME);
        Ok(told.contains(r#""record":"gone""#).then_some(told))
    })?;
    let decisions = decisions(&told)?;
    let victims: Vec<&str> = decisions
        .iter()
        .map(|decision| text(decision, "/victim"))
        .collect();
    ensure!(victims == ["big"], "{decisions:?}");
    node.until("the disk is as free as without it", 60, |_| {
        let disk = node.cluster.kubelet_root();
        Ok((filling.left(&disk)? > left).then_some(()))
    })?;
    for wish in others {
        node.lives_on(wish.namespace, wish.name)?;
    }
    node.lives_on("default", "hog")
}

/// What a victim's layer held stays, as the kubelet has not evicted it: one more pod would free nothing.
fn stays_full(node: &Node) -> Result<()> {
    let filling = Filling {
        deletes: false,
        ..BYTES_IN_A_LAYER
    };
    // The kubelet clears away what earlier pods have left once a minute, which would make room.
    node.until("no container is left of earlier pods", 150, |node| {
        let left = ctr(node, &["containers", "list", "--quiet"])?;
        Ok(left.trim().is_empty().then_some(()))
    })?;
    let Before { others, line, .. } = before(node, &filling)?;
    let state = tempfile::tempdir()?;
    // Else the runtime would remove the dead container, and its layer with it.
    let mut evictor = node.evictor_telling(&["--reclaim=off"], &line, state.path())?;
    node.apply(&filling.hog().pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    evictor.wait_for("gone", Duration::from_secs(60))?;
    // Each of the policy's cycles says so anew.
    node.until("it is held back over three cycles", 90, |_| {
        evictor.drain();
        let held = evictor.of_kind("held-back");
        let for_good = held.filter(|held| held.text("reason") == "not-filling");
        Ok((for_good.count() >= 3).then_some(()))
    })
    .with_context(|| format!("it says {:?}", &evictor.seen[1..]))?;
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 1, "{decisions} decisions");
    let last = evictor.of_kind("held-back").last();
    let last = last.map(|held| held.text("reason").to_owned());
    ensure!(last.as_deref() == Some("not-filling"), "{last:?}");
    for wish in &others {
        node.lives_on(wish.namespace, wish.name)?;
    }
    Ok(())
}

/// Our account may delete pods as long as the story lasts.
pub(crate) fn with_right_to_delete<T>(
    node: &Node,
    story: impl FnOnce(&Node) -> Result<T>,
) -> Result<T> {
    let role = [
        "create",
        "clusterrole",
        "evtest-delete",
        "--verb=delete",
        "--resource=pods",
    ];
    node.kubectl(&role)?;
    node.kubectl(&[
        "create",
        "clusterrolebinding",
        "evtest-delete",
        "--clusterrole=evtest-delete",
        "--serviceaccount=kube-system:eviction",
    ])?;
    let told = story(node);
    for kind in ["clusterrolebinding", "clusterrole"] {
        node.kubectl(&["delete", kind, "evtest-delete"])?;
    }
    told
}
