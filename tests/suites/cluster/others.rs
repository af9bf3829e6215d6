//! What else may happen while a pod is evicted, and what else a pod may use up.

use std::time::Duration;

use anyhow::{Result, ensure};
use eviction_tests::suite::{Case, Outcome};
use eviction_user::sys::node_tasks::NodeTasksReader;
use serde_json::json;

use crate::api::check_on_record;
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a pod of the victim's name is left alone", || {
            node::with(same_name)
        }),
        Case::new("the kubelet is killed in the middle of an eviction", || {
            node::with(kubelet_restarted)
        }),
        Case::new(
            "a pod that forks without end goes for its processes",
            || node::with(forks),
        ),
        Case::new(
            "a pod that stalls at its own limit is nobody's pressure (cases 22, 23)",
            || node::with(stalls_by_itself),
        ),
    ]
}

/// Deleted by somebody and made anew while its predecessor is evicted.
fn same_name(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    node.apply(&Wish::hog("twin", 500).pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    let now = ["--grace-period=0", "--force", "--wait=false"];
    node.kubectl(&[&["delete", "pod", "twin"], &now[..]].concat())?;
    let second = Wish::holding("twin", 100);
    node.until("the name is free", 30, |node| {
        Ok(node.apply(&second.pod()).ok())
    })?;
    let pod = node.until_running("default", "twin")?;
    ensure!(
        pod["metadata"]["uid"] != decision.text("uid"),
        "{}",
        pod["metadata"]
    );
    evictor.wait_for("gone", Duration::from_secs(60))?;
    // A late word about the first one must not reach it.
    let watched = node.stay_evicted("default")?;
    ensure!(watched == 0, "{watched} are on record");
    node.lives_on("default", "twin")?;
    let left = std::fs::read_dir(state.path().join("records"))?.count();
    ensure!(left == 0, "{left} records are said to be unfinished");
    Ok(())
}

fn kubelet_restarted(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    let sibling = Wish {
        request: Some("128Mi"),
        ..Wish::holding("sibling", 100)
    };
    node.apply(&sibling.pod())?;
    node.until_running("default", "sibling")?;
    node.apply(&Wish::hog("hog", 500).pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    node.cluster.restart_kubelet(&node.parts)?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    evictor.wait_for("gone", Duration::from_secs(90))?;
    node.until_torn_down("default", "hog")?;
    let watched = node.stay_evicted("default")?;
    ensure!(watched == 1, "{watched} are on record");
    node.lives_on("default", "sibling")?;
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 1, "{decisions} decisions");
    Ok(())
}

/// Left for all others, and taken by the hog: more than the machine's own ups and downs.
const ROOM: i64 = 1_000;

fn forks(node: &Node) -> Result<()> {
    let tasks = NodeTasksReader::open()?.read()?;
    let free = tasks.max_pid.unwrap_or(0) - tasks.running.unwrap_or(0);
    ensure!(free > 2 * ROOM, "{free} tasks are left on this machine");
    let line = format!("pid.available<{}", free - ROOM);
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_as(&node.kubeconfig, &line, state.path())?;
    let sibling = Wish::holding("sibling", 10);
    node.apply(&sibling.pod())?;
    node.until_running("default", "sibling")?;
    let forks = Wish {
        load: vec!["fork".to_owned(), (3 * ROOM).to_string(), "2000".to_owned()],
        ..Wish::holding("forks", 0)
    };
    node.apply(&forks.pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    ensure!(decision.text("victim") == "forks", "{}", decision.0);
    evictor.wait_for("gone", Duration::from_secs(60))?;
    let pod = node.until_torn_down("default", "forks")?;
    let message = check_on_record(&pod)?;
    ensure!(
        message.starts_with("The node was low on resource: pids. Threshold quantity: "),
        "{message}"
    );
    node.lives_on("default", "sibling")
}

/// Page cache by far above its limit, which the kernel takes back from it again and again.
fn stalls_by_itself(node: &Node) -> Result<Outcome> {
    const WRITTEN: u64 = 384 << 20;
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    let writer = Wish {
        load: ["write", "/data/file", &WRITTEN.to_string(), "0"]
            .map(str::to_owned)
            .into(),
        volume: Some("/data"),
        ..Wish::holding("writer", 0)
    };
    let mut pod = writer.pod();
    pod["spec"]["containers"][0]["resources"] = json!({"limits": {"memory": "48Mi"}});
    node.apply(&pod)?;
    let pod = node.until_running("default", "writer")?;
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let volume = format!("pods/{uid}/volumes/kubernetes.io~empty-dir/data/file");
    let file = node.cluster.kubelet_root().join(volume);
    node.until("all is written", 120, |_| {
        Ok((file.metadata()?.len() == WRITTEN).then_some(()))
    })?;
    let counter = format!("burstable/pod{uid}/memory.failcnt");
    let at_limit = std::fs::read_to_string(node.cluster.pods_group()?.join(counter))?;
    let at_limit: u64 = at_limit.trim().parse()?;
    ensure!(at_limit > 100, "it came to its limit only {at_limit} times");
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 0, "{decisions} decisions");
    node.lives_on("default", "writer")?;
    Ok(Outcome::Noted(format!("at its limit {at_limit} times")))
}
