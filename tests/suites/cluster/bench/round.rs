//! One hog, one evictor.

use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::{Progress, ProgressPage, now_ns};
use eviction_tests::scenario::wait_until;
use eviction_user::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy, Version};
use serde::Serialize;
use serde_json::{Value, json};

use super::{BEFORE_MIB, LINE_MIB, MIB, Mode, RATE_MIB};
use crate::api::{record, text};
use crate::chart::{Release, until_ready};
use crate::node::Node;
use crate::pods::Wish;

/// A kubelet that has just started has looked once after this time, and set its notifier.
const A_CYCLE: Duration = Duration::from_secs(12);
/// Between two of its looks, in ms: the hog has to come at any moment of that alike.
const BETWEEN_LOOKS: u64 = 10_000;
/// Nobody takes longer to find the hog.
const PATIENCE: Duration = Duration::from_secs(60);
/// A hog that has taken nothing for so long is dead, or has all that it wants.
const STILL: Duration = Duration::from_secs(2);
/// So far from the line the counter is read without a rest.
const SHORTLY_MIB: u64 = 48;
const A_MOMENT: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) mode: Mode,
    pub(crate) cgroup: &'static str,
    /// `None`: the hog was not stopped before it had all that it wanted.
    pub(crate) crossing_to_last_allocation_us: Option<u64>,
    pub(crate) overshoot_bytes: Option<u64>,
    pub(crate) victims: Vec<String>,
}

impl Round {
    pub(super) fn run(node: &Node, mode: Mode, name: &str) -> Result<Self> {
        let line = if mode.is_kubelet() { LINE_MIB } else { 50 };
        set_kubelet(node, line, mode == Mode::KubeletMemcg)?;
        let sibling = Wish {
            request: Some("128Mi"),
            ..Wish::holding("sibling", 100)
        };
        node.apply(&sibling.pod())?;
        node.until_running("default", "sibling")?;
        let installed = if mode.is_kubelet() {
            let moment = Duration::from_millis(fastrand::u64(..BETWEEN_LOOKS));
            std::thread::sleep(A_CYCLE + moment);
            None
        } else {
            let line = format!("allocatableMemory.available<{LINE_MIB}Mi");
            let release = Release::install(node, &line, "keep")?;
            until_ready(node, Release::NAME)?;
            Some(release)
        };
        let round = hog(node, mode, name);
        if let Some(release) = installed {
            release.uninstall(node)?;
        }
        node.clean()?;
        round
    }
}

/// Starts it again with that line, in MiB.
pub(super) fn set_kubelet(node: &Node, line: u64, notifier: bool) -> Result<()> {
    let hard = json!({
        "memory.available": format!("{line}Mi"),
        "nodefs.available": "1%",
        "imagefs.available": "1%",
    });
    let keys = [
        ("evictionHard", hard),
        ("kernelMemcgNotification", json!(notifier)),
    ];
    node.cluster.reconfigure_kubelet(&node.parts, &keys)
}

fn hog(node: &Node, mode: Mode, name: &str) -> Result<Round> {
    let hierarchy = Hierarchy::detect()?;
    let root = CgroupDir::open(&node.cluster.pods_group()?)?;
    let group = GroupMemoryReader::open(&root, hierarchy.version)?;
    let file = node.cluster.folder.join(format!("{name}.progress"));
    let progress = Progress::open(&file)?;
    let page = progress.page();
    let total = (LINE_MIB + BEFORE_MIB - 100) * MIB;
    node.apply(&pod(&file, total))?;

    let done = || page.done.load(Ordering::Acquire);
    let first = wait_until(PATIENCE, || (done() > 0).then_some(()));
    first.context("the hog does not begin")?;
    let crossing = crossing(&group, page)?;
    let ended = wait_until(PATIENCE, || has_ended(page).then_some(()));
    ended.context("the hog takes more and more")?;
    let was_stopped = done() < total;
    let victims = victims(node)?;
    let last = page.last_ns.load(Ordering::Acquire);
    fs::remove_file(&file)?;
    Ok(Round {
        mode,
        cgroup: match hierarchy.version {
            Version::V1 => "v1",
            Version::V2 => "v2",
        },
        crossing_to_last_allocation_us: was_stopped
            .then(|| last.saturating_sub(crossing.at_ns) / 1_000),
        overshoot_bytes: was_stopped.then(|| done().saturating_sub(crossing.done)),
        victims,
    })
}

/// The last moment at which the line was not crossed yet.
struct Crossing {
    at_ns: u64,
    /// What the hog had by then.
    done: u64,
}

/// Reads the pods' counter as fast as it can from shortly before the line on. The last reading before the line is what counts:
/// an evictor that runs at once takes the CPU from us, and the next one comes when all is over.
fn crossing(group: &GroupMemoryReader, page: &ProgressPage) -> Result<Crossing> {
    let left = |used: u64| (BEFORE_MIB * MIB).saturating_sub(used);
    while left(group.read()?.working_set()) > SHORTLY_MIB * MIB {
        std::thread::sleep(A_MOMENT);
    }
    let read = group.read()?;
    // Nobody reads or writes files meanwhile.
    let inactive = read.usage - read.working_set();
    let mut before = None;
    loop {
        let now = Crossing {
            at_ns: now_ns(),
            done: page.done.load(Ordering::Acquire),
        };
        // Read after that: if it shows room, there was room then.
        let used = group.usage()?.saturating_sub(inactive);
        if left(used) == 0 {
            return before.context("the hog had crossed the line before it was watched");
        }
        before = Some(now);
        ensure!(!has_ended(page), "the hog has ended before the line");
    }
}

fn has_ended(page: &ProgressPage) -> bool {
    let last = page.last_ns.load(Ordering::Acquire);
    now_ns().saturating_sub(last) > STILL.as_nanos() as u64
}

/// It shares its progress with us through a file of the node.
fn pod(page: &Path, total: u64) -> Value {
    let mut wish = Wish {
        restart: "Never",
        request: Some("16Mi"),
        ..Wish::holding("hog", 0)
    };
    let rate = RATE_MIB * MIB;
    wish.load = ["--progress", "/page", "hog"].map(str::to_owned).into();
    wish.load
        .extend([total, rate].map(|number| number.to_string()));
    let mut pod = wish.pod();
    pod["spec"]["volumes"] = json!([{"name": "page", "hostPath": {"path": page, "type": "File"}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "page", "mountPath": "/page"}]);
    pod
}

/// Whoever was evicted, by whom ever; it may take a moment until it is written down.
fn victims(node: &Node) -> Result<Vec<String>> {
    let found = |node: &Node| -> Result<Vec<String>> {
        let pods = node.get(&["pods", "--namespace", "default"])?;
        let pods = pods["items"].as_array().cloned().unwrap_or_default();
        let evicted = pods
            .iter()
            .filter(|pod| text(pod, "/status/reason") == "Evicted" || !record(pod).is_empty());
        Ok(evicted
            .map(|pod| text(pod, "/metadata/name").to_owned())
            .collect())
    };
    // A kubelet that has taken another one first takes the hog ten seconds later.
    let hog = node.until("the hog is evicted", 45, |node| {
        let found = found(node)?;
        Ok(found.iter().any(|name| name == "hog").then_some(found))
    });
    hog.or_else(|_| found(node))
}
