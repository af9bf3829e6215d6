//! The same on cgroup v2, in an emulated guest, where the kubelet has no notifier: one hog, slower, evicted by the kubelet as it
//! polls and by the chart's pod.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use eviction_tests::scenario::crossing::Stopped;
use eviction_tests::suite;
use serde_json::json;
use xtask::cluster::{GUEST_NODE, GuestNode};
use xtask::setup::Kernel;

use super::round::{self, A_CYCLE, BETWEEN_LOOKS, Round};
use super::{MIB, Mode};
use crate::chart::{Release, until_ready};
use crate::guest;
use crate::node::Node;
use crate::pods::Wish;

pub(super) const MODES: [Mode; 2] = [Mode::KubeletPoll, Mode::Eviction];
pub(super) const RATE_MIB: u64 = 34;
/// Taken before the line.
const BEFORE_MIB: u64 = 500;
const PODS: &str = "/sys/fs/cgroup/kubepods";
const PAGE: &str = "/run/hog.progress";

/// The guest, and how much all its pods may take together.
pub(super) struct Bed {
    guest: GuestNode,
    pods: u64,
}

impl Bed {
    pub(super) fn make(node: &Node) -> Result<Self> {
        let kernel = Kernel::find(&node.workspace, guest::SERIES)?;
        let tools: [PathBuf; 1] = [suite::programs()?.join("eviction-scenario")];
        let guest = guest::boot(node, kernel, &tools)?;
        let pods = guest.sh(&format!("cat {PODS}/memory.max"))?;
        let pods = pods.trim().parse().context("the pods have no limit")?;
        Ok(Self { guest, pods })
    }

    fn line_mib(&self) -> u64 {
        self.pods / MIB - BEFORE_MIB
    }

    pub(super) fn round(&self, node: &Node, mode: Mode) -> Result<Round> {
        let line = if mode.is_kubelet() {
            self.line_mib()
        } else {
            50
        };
        let keys = round::kubelet_keys(line, false);
        self.guest.reconfigure_kubelet(&keys)?;
        let sibling = Wish {
            request: Some("128Mi"),
            ..Wish::holding("sibling", 100)
        };
        node.apply(&sibling.pod_on(GUEST_NODE))?;
        node.until_running("default", "sibling")?;
        let installed = if mode.is_kubelet() {
            let moment = Duration::from_millis(fastrand::u64(..BETWEEN_LOOKS));
            thread::sleep(A_CYCLE + moment);
            None
        } else {
            let line = format!("allocatableMemory.available<{}Mi", self.line_mib());
            let release = Release::install_in_guest(node, &line, &json!({}))?;
            until_ready(node, Release::NAME)?;
            Some(release)
        };
        let round = self.hog(node, mode);
        if let Some(release) = installed {
            release.uninstall(node)?;
        }
        node.clean()?;
        self.guest.sh(&format!("rm {PAGE}"))?;
        round
    }

    /// The guest watches: only there is the hog's progress shared.
    fn hog(&self, node: &Node, mode: Mode) -> Result<Round> {
        let total = self.pods - 150 * MIB;
        // What crosses is what has been left to be taken.
        let line = self.pods - self.line_mib() * MIB;
        self.guest.sh(&format!("head -c 4096 /dev/zero >{PAGE}"))?;
        let watch = format!(
            "eviction-scenario --output json crossing --progress {PAGE} --total {total} --group {PODS} --line {line}"
        );
        let told = thread::scope(|scope| {
            let watched = scope.spawn(|| self.guest.sh(&watch));
            let mut pod = round::pod(PAGE.as_ref(), total, RATE_MIB);
            pod["spec"]["nodeName"] = json!(GUEST_NODE);
            node.apply(&pod)?;
            watched.join().ok().context("the watch ended in a panic")?
        })?;
        let stopped: Stopped = serde_json::from_str(told.trim()).context(told)?;
        Ok(Round {
            mode,
            cgroup: "v2",
            stopped,
            victims: round::victims(node)?,
        })
    }
}
