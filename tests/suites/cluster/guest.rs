//! The same on cgroup v2, as it is today: kubelet, runtime and the chart's pod in a guest, on a kernel that has fentry.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use eviction_tests::suite::{self, Case, Outcome};
use serde_json::{Value, json};
use xtask::cluster::{Disk, GUEST_NODE, GuestNode, Software};
use xtask::image;
use xtask::setup::Kernel;
use xtask::workspace::Workspace;

use crate::api::{check_on_record, record, text};
use crate::chart::{Release, decisions, logs, until_ready};
use crate::memory::{check_events, of_all_kinds};
use crate::node::{self, LINE, Node};
use crate::pods::Wish;
use crate::{refusal, soft};

pub(crate) const SERIES: &str = "6.12";
/// Of its memory pods get what the stories' native node has.
const RESERVED_MIB: u64 = 1_400;
/// Small in inodes.
const DISK: Disk = Disk {
    bytes: 1 << 30,
    inodes: 16_384,
};
/// As many are left when the line is crossed as the hog takes before.
const FILES: u64 = 4_000;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        // The first one: the conditions that others leave on the node would keep its hog out.
        Case::new(
            "on cgroup v2 in a guest: a soft hog has its grace, and then new pods are refused",
            || with(soft_hog_and_newcomers),
        ),
        Case::new(
            "on cgroup v2 in a guest: a memory hog goes, on fentry",
            || with(memory_hog),
        ),
        Case::new(
            "on cgroup v2 in a guest: an inode hog goes, on fentry",
            || with(inode_hog),
        ),
    ]
}

/// `Err`: why it could not be brought up, which every story then says.
static GUEST: Mutex<Option<Result<GuestNode, String>>> = Mutex::new(None);

/// Boots it for the first story that asks for it.
fn with(story: impl Fn(&Node, &GuestNode) -> Result<Outcome>) -> Outcome {
    let kernel = match Workspace::find().map(|workspace| Kernel::find(&workspace, SERIES)) {
        Ok(Ok(kernel)) => kernel,
        Ok(Err(missing)) => return Outcome::Skipped(missing.to_string()),
        Err(error) => return Outcome::Failed(format!("{error:#}")),
    };
    let told = node::with(|node| {
        let mut guest = GUEST.lock().unwrap_or_else(PoisonError::into_inner);
        let up = guest.get_or_insert_with(|| boot(node, kernel, &[]).map_err(|e| format!("{e:#}")));
        let guest = match up {
            Ok(guest) => guest,
            Err(why) => bail!("the guest does not come up: {why}"),
        };
        let failures = guest.failures();
        let mut told = story(node, guest);
        if told.is_err() && guest.failures() > failures {
            node.clean()?;
            guest.until_ready(&node.cluster, &node.parts)?;
            told = story(node, guest);
        }
        told
    });
    told.into()
}

/// Before its cluster.
pub(crate) fn take_down() {
    drop(GUEST.lock().unwrap_or_else(PoisonError::into_inner).take());
}

pub(crate) fn boot(node: &Node, kernel: Kernel, tools: &[PathBuf]) -> Result<GuestNode> {
    let folder = node.cluster.folder.join("install");
    let image = image::archive(&node.workspace, &node.programs.eviction, &folder)?;
    let software = Software {
        load: &suite::programs()?.join("eviction-load"),
        image: &image,
        tools,
        reserved_mib: RESERVED_MIB,
        disk: DISK,
    };
    GuestNode::start(
        &node.workspace,
        &node.cluster,
        &node.parts,
        kernel,
        &software,
    )
}

/// The started record of the chart's pod, which sees this kind of pressure by fentry.
fn on_fentry(node: &Node, pressure: &str) -> Result<String> {
    until_ready(node, Release::NAME)?;
    let told = logs(node, Release::NAME);
    let started = told
        .lines()
        .find(|line| line.contains(r#""record":"started""#));
    let started = started.with_context(|| format!("no started record: {told}"))?;
    let started: Value = serde_json::from_str(started)?;
    let rung = text(&started, &format!("/{pressure}")).to_owned();
    ensure!(
        rung.starts_with("fentry/"),
        "{pressure} is seen by {rung}: {}",
        started["ladder"]
    );
    Ok(rung)
}

/// The only one whom the chart's pod has chosen.
fn only_decision(node: &Node) -> Result<Value> {
    match &decisions(&logs(node, Release::NAME))?[..] {
        [decision] => Ok(decision.clone()),
        all => bail!("{} decisions: {all:?}", all.len()),
    }
}

fn memory_hog(node: &Node, guest: &GuestNode) -> Result<Outcome> {
    let others = of_all_kinds();
    for wish in &others {
        node.apply(&emulated(wish))?;
    }
    with_the_charts_pod(node, LINE, &json!({}), || {
        for wish in &others {
            node.until_running(wish.namespace, wish.name)?;
        }
        let rung = on_fentry(node, "memory")?;
        node.apply(&Wish::hog("hog", 100).pod_on(GUEST_NODE))?;
        let pod = node.until_evicted("default", "hog")?;
        let decision = only_decision(node)?;
        ensure!(text(&decision, "/victim") == "hog", "{decision}");
        ensure!(record(&pod) == text(&decision, "/id"), "{decision}");
        check_events(node, GUEST_NODE, "hog", record(&pod))?;
        let uid = text(&pod, "/metadata/uid");
        until_group_is_gone(node, guest, "burstable", uid)?;
        for wish in &others {
            node.lives_on(wish.namespace, wish.name)?;
        }
        Ok(Outcome::Noted(woken(&rung, &decision)))
    })
}

fn with_the_charts_pod(
    node: &Node,
    line: &str,
    more: &Value,
    story: impl FnOnce() -> Result<Outcome>,
) -> Result<Outcome> {
    let release = Release::install_in_guest(node, line, more)?;
    let told = story().with_context(|| format!("it says: {}", logs(node, Release::NAME)));
    release.uninstall(node)?;
    told
}

/// There a hundredth of a CPU takes minutes to start anything.
fn emulated(wish: &Wish) -> Value {
    let mut pod = wish.pod_on(GUEST_NODE);
    if wish.is_guaranteed {
        let resources = &mut pod["spec"]["containers"][0]["resources"];
        for kind in ["requests", "limits"] {
            resources[kind]["cpu"] = json!("500m");
        }
    }
    pod
}

fn until_group_is_gone(node: &Node, guest: &GuestNode, class: &str, uid: &str) -> Result<()> {
    let group = format!("/sys/fs/cgroup/kubepods/{class}/pod{uid}");
    // What is asked for is where its cgroups are.
    guest.sh(&format!("ls /sys/fs/cgroup/kubepods/{class}/cgroup.procs"))?;
    node.until("its cgroup is gone", 30, |_| {
        Ok(guest
            .sh(&format!("test ! -e {group}"))
            .is_ok()
            .then_some(()))
    })
}

fn inode_hog(node: &Node, guest: &GuestNode) -> Result<Outcome> {
    let others = [
        holding_files("old", "default", FILES / 4),
        Wish {
            class: Some("system-node-critical"),
            ..holding_files("critical", "kube-system", FILES / 2)
        },
    ];
    for wish in &others {
        node.apply(&wish.pod_on(GUEST_NODE))?;
    }
    for wish in &others {
        node.until_running(wish.namespace, wish.name)?;
    }
    let all = FILES / 4 + FILES / 2;
    node.until("the others have their files", 60, |_| {
        let held = guest.sh("find /var/lib/kubelet/pods -type f | wc -l")?;
        Ok((held.trim().parse::<u64>()? >= all).then_some(()))
    })?;
    let left = inodes_left(guest)?;
    ensure!(left > 2 * FILES, "only {left} inodes are left");
    let line = format!("nodefs.inodesFree<{}", left - FILES);
    with_the_charts_pod(node, &line, &json!({}), || {
        let rung = on_fentry(node, "inodes")?;
        let hog = Wish {
            load: ["inodes", "/data/new", &(4 * FILES).to_string(), "500"]
                .map(str::to_owned)
                .into(),
            volume: Some("/data"),
            ..Wish::holding("hog", 0)
        };
        node.apply(&hog.pod_on(GUEST_NODE))?;
        let pod = node.until_torn_down("default", "hog")?;
        let message = check_on_record(&pod)?;
        ensure!(
            message.starts_with("The node was low on resource: inodes. Threshold quantity: "),
            "{message}"
        );
        let decision = only_decision(node)?;
        ensure!(text(&decision, "/victim") == "hog", "{decision}");
        ensure!(record(&pod) == text(&decision, "/id"), "{decision}");
        node.until("the disk is as free as before", 60, |_| {
            Ok((inodes_left(guest)? + FILES / 4 > left).then_some(()))
        })?;
        for wish in &others {
            node.lives_on(wish.namespace, wish.name)?;
        }
        Ok(Outcome::Noted(woken(&rung, &decision)))
    })
}

/// The condition is raised at once, and holds for five minutes.
fn soft_hog_and_newcomers(node: &Node, guest: &GuestNode) -> Result<Outcome> {
    let (signal, amount) = soft::SOFT.split_once('<').context("no line")?;
    let (_, grace) = soft::FOR.split_once('=').context("no grace")?;
    let values = json!({
        "evictionSoft": {signal: amount},
        "evictionSoftGracePeriod": {signal: grace},
        "evictionMaxPodGracePeriod": soft::MAX_GRACE,
        "admission": true,
    });
    with_the_charts_pod(node, LINE, &values, || {
        let rung = on_fentry(node, "memory")?;
        let hog = soft::slow("hog", soft::BEYOND_SOFT);
        let pod = soft::leaves_in_its_grace(node, GUEST_NODE, &hog, |_| Ok(()))?;
        let decision = only_decision(node)?;
        ensure!(text(&decision, "/victim") == "hog", "{decision}");
        until_group_is_gone(node, guest, "burstable", text(&pod, "/metadata/uid"))?;
        let refused = refusal::newcomers(node, GUEST_NODE)?;
        until_group_is_gone(node, guest, "besteffort", text(&refused, "/metadata/uid"))?;
        Ok(Outcome::Noted(format!(
            "events from {rung}, grace {} s, refused: {}",
            pod["metadata"]["deletionGracePeriodSeconds"],
            text(&refused, "/status/message")
        )))
    })
}

fn woken(rung: &str, decision: &Value) -> String {
    let by = text(decision, "/source");
    format!("events from {rung}, the decision after one from {by}")
}

fn holding_files(name: &'static str, namespace: &'static str, files: u64) -> Wish {
    Wish {
        namespace,
        load: ["inodes", "/data/old", &files.to_string(), "0"]
            .map(str::to_owned)
            .into(),
        volume: Some("/data"),
        ..Wish::holding(name, 0)
    }
}

fn inodes_left(guest: &GuestNode) -> Result<u64> {
    let place = guest.kubelet_root().display();
    Ok(guest
        .sh(&format!("stat -f -c %d {place}"))?
        .trim()
        .parse()?)
}
