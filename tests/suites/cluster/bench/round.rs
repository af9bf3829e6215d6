//! One hog, one evictor.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use eviction_tests::load::Progress;
use eviction_tests::scenario::crossing::{self, Stopped};
use eviction_user::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy, Version};
use serde::Serialize;
use serde_json::{Value, json};

use super::{BEFORE_MIB, LINE_MIB, MIB, Mode, RATE_MIB};
use crate::api::{record, text};
use crate::chart::{Release, until_ready};
use crate::node::Node;
use crate::pods::Wish;

/// A kubelet that has just started has looked once after this time, and set its notifier.
pub(super) const A_CYCLE: Duration = Duration::from_secs(12);
/// Between two of its looks, in ms: the hog has to come at any moment of that alike.
pub(super) const BETWEEN_LOOKS: u64 = 10_000;

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Round {
    pub(crate) mode: Mode,
    pub(crate) cgroup: &'static str,
    #[serde(flatten)]
    pub(crate) stopped: Stopped,
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
    let keys = kubelet_keys(line, notifier);
    node.cluster.reconfigure_kubelet(&node.parts, &keys)
}

pub(super) fn kubelet_keys(line: u64, notifier: bool) -> [(&'static str, Value); 2] {
    let hard = json!({
        "memory.available": format!("{line}Mi"),
        "nodefs.available": "1%",
        "imagefs.available": "1%",
    });
    [
        ("evictionHard", hard),
        ("kernelMemcgNotification", json!(notifier)),
    ]
}

fn hog(node: &Node, mode: Mode, name: &str) -> Result<Round> {
    let hierarchy = Hierarchy::detect()?;
    let root = CgroupDir::open(&node.cluster.pods_group()?)?;
    let group = GroupMemoryReader::open(&root, hierarchy.version)?;
    let file = node.cluster.folder.join(format!("{name}.progress"));
    let progress = Progress::open(&file)?;
    let total = (LINE_MIB + BEFORE_MIB - 100) * MIB;
    node.apply(&pod(&file, total, RATE_MIB))?;

    let line = BEFORE_MIB * MIB;
    let stopped = crossing::watch(progress.page(), total, &group, line)?;
    let victims = victims(node)?;
    fs::remove_file(&file)?;
    Ok(Round {
        mode,
        cgroup: match hierarchy.version {
            Version::V1 => "v1",
            Version::V2 => "v2",
        },
        stopped,
        victims,
    })
}

/// It shares its progress with us through a file of the node.
pub(super) fn pod(page: &Path, total: u64, rate_mib: u64) -> Value {
    let mut wish = Wish {
        restart: "Never",
        request: Some("16Mi"),
        ..Wish::holding("hog", 0)
    };
    let rate = rate_mib * MIB;
    wish.load = ["--progress", "/page", "hog"].map(str::to_owned).into();
    wish.load
        .extend([total, rate].map(|number| number.to_string()));
    let mut pod = wish.pod();
    pod["spec"]["volumes"] = json!([{"name": "page", "hostPath": {"path": page, "type": "File"}}]);
    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "page", "mountPath": "/page"}]);
    pod
}

/// Whoever was evicted, by whom ever; it may take a moment until it is written down.
pub(super) fn victims(node: &Node) -> Result<Vec<String>> {
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
