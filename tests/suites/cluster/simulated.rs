//! Far more pods than this machine could run: real objects of a real API server, on a node that has no kubelet, and a cgroup for each
//! as a kubelet and a runtime would make it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::now_ns;
use eviction_tests::scenario::Evictor;
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};

use crate::mapping::{Mapped, candidates, judge};
use crate::node::{self, Node};

const NODE: &str = "simulated";
/// As a runtime names them.
const ID: &str = "5f2a9c7d81e0b3466f8a1d2c3b4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a decision among 110 and among 1,000 pods", || {
            node::with(decisions)
        }),
        Case::new(
            "pods that come and go, 20 a second, are never taken for each other",
            || node::with(churn),
        ),
    ]
}

/// The node's object and the cgroup that holds its pods; both go with it.
struct Simulated<'a> {
    node: &'a Node,
    group: PathBuf,
    /// What the kubelet would name so.
    root: PathBuf,
}

impl<'a> Simulated<'a> {
    fn up(node: &'a Node) -> Result<Self> {
        let group = node.cluster.pods_group()?.with_file_name(NODE);
        let root = group.join("kubepods");
        fs::create_dir_all(&root).with_context(|| root.display().to_string())?;
        let simulated = Self { node, group, root };
        node.apply(&json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": NODE},
            // Nothing is scheduled here.
            "spec": {"unschedulable": true},
        }))?;
        Ok(simulated)
    }

    /// Makes these pods' objects; their uids by name.
    fn make(&self, names: impl Iterator<Item = String>) -> Result<BTreeMap<String, String>> {
        let pods: Vec<Value> = names.map(|name| pod(&name)).collect();
        self.node.create(&pods)
    }

    fn group(&self, uid: &str) -> PathBuf {
        self.root.join(format!("pod{uid}"))
    }

    /// A pod's cgroup with those of its sandbox and its container.
    fn make_group(&self, uid: &str) -> Result<()> {
        let pod = self.group(uid);
        fs::create_dir(&pod)?;
        for place in [sandbox(), ID.to_owned()] {
            fs::create_dir(pod.join(place))?;
        }
        Ok(())
    }

    fn remove_group(&self, uid: &str) -> Result<()> {
        let pod = self.group(uid);
        for place in [sandbox(), ID.to_owned()] {
            fs::remove_dir(pod.join(place))?;
        }
        Ok(fs::remove_dir(pod)?)
    }

    /// Decides in every cycle, and kills nobody.
    fn evictor(&self) -> Result<Evictor> {
        let kubeconfig = self.node.kubeconfig.display().to_string();
        let root = self.root.display().to_string();
        let arguments = [
            "--platform=kubernetes",
            "--node-name",
            NODE,
            "--kubeconfig",
            &kubeconfig,
            "--root",
            &root,
            "--eviction-hard=memory.available<1Ti",
            "--monitoring-interval=1s",
            "--dry-run",
        ];
        let mut evictor = Evictor::start(&self.node.programs, &arguments.map(str::to_owned))?;
        evictor.wait_for("started", Duration::from_secs(20))?;
        Ok(evictor)
    }
}

impl Drop for Simulated<'_> {
    fn drop(&mut self) {
        // What cannot be removed is in the cluster's cgroup, and goes with that.
        let _ = remove_all(&self.group);
        let all = [
            "delete",
            "pods",
            "--all",
            "--grace-period=0",
            "--force",
            "--wait=false",
        ];
        let _ = self.node.kubectl(&all);
        let _ = self.node.kubectl(&["delete", "node", NODE]);
    }
}

fn remove_all(group: &Path) -> std::io::Result<()> {
    for child in fs::read_dir(group)? {
        let child = child?;
        if child.file_type()?.is_dir() {
            remove_all(&child.path())?;
        }
    }
    fs::remove_dir(group)
}

fn sandbox() -> String {
    ID.chars().rev().collect()
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": NODE,
            "automountServiceAccountToken": false,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "none", "resources": {"requests": {"memory": "1Mi"}}}],
        },
    })
}

/// Of which the median is told.
const DECISIONS: usize = 10;

fn decisions(node: &Node) -> Result<Outcome> {
    let mut told = Vec::new();
    for pods in [110, 1000] {
        let simulated = Simulated::up(node)?;
        let uids = simulated.make((0..pods).map(|number| format!("pod-{number}")))?;
        ensure!(uids.len() == pods, "{} pods were made", uids.len());
        for uid in uids.values() {
            simulated.make_group(uid)?;
        }
        let mut evictor = simulated.evictor()?;
        let what = format!("{DECISIONS} decisions among {pods} pods");
        let mut ages = node.until(&what, 60, |_| {
            evictor.drain();
            let decisions = evictor.of_kind("decision");
            let complete = decisions.filter(|decision| candidates(decision).len() == pods);
            let ages = complete.filter_map(|decision| decision.number("sample_age_us"));
            let ages: Vec<u64> = ages.collect();
            Ok((ages.len() >= DECISIONS).then_some(ages))
        })?;
        ages.sort_unstable();
        let median = ages[ages.len() / 2] as f64 / 1000.0;
        let longest = ages[ages.len() - 1] as f64 / 1000.0;
        told.push(format!(
            "{pods} pods: look and decision {median:.1} ms, at most {longest:.1} ms ({} decisions)",
            ages.len()
        ));
    }
    Ok(Outcome::Noted(told.join("; ")))
}

const A_SECOND: usize = 20;
const SECONDS: usize = 20;

/// A pod's object comes before its cgroup and outlives it, as on a node.
fn churn(node: &Node) -> Result<Outcome> {
    let simulated = Simulated::up(node)?;
    let mut evictor = simulated.evictor()?;
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    let mut before: Vec<String> = Vec::new();
    let began = now_ns();
    for second in 0..SECONDS {
        let names = (0..A_SECOND).map(|number| format!("pod-{second}-{number}"));
        let made = simulated.make(names)?;
        for uid in made.values() {
            simulated.make_group(uid)?;
        }
        for name in std::mem::take(&mut before) {
            simulated.remove_group(&known[&name])?;
        }
        before.extend(made.keys().cloned());
        known.extend(made);
        let due = began + (second as u64 + 1) * 1_000_000_000;
        std::thread::sleep(Duration::from_nanos(due.saturating_sub(now_ns())));
    }
    evictor.drain();
    let Mapped { seen, unmapped } = judge(&evictor, &known, |_, _| true)?;
    ensure!(
        seen > A_SECOND * SECONDS / 2,
        "only {seen} were ranked; last said: {:?}",
        evictor.seen.last()
    );
    Ok(Outcome::Noted(format!(
        "{} pods, {seen} times ranked under their names, {unmapped} times not known yet, none wrong",
        known.len()
    )))
}
