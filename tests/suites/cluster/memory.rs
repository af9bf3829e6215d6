//! Pods that use up the memory of all.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::now_ns;
use eviction_tests::suite::{Case, Outcome};
use serde_json::Value;
use xtask::cluster::NODE;

use crate::api::{check_evicted, record, text};
use crate::node::{self, Node};
use crate::pods::Wish;

/// As many victims of one ReplicaSet.
const REPLACED: usize = 20;
const NAKED: usize = 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a hog among pods of all kinds goes, and is on record",
            || node::with(one_hog),
        ),
        Case::new(
            "forty hogs of all kinds go one by one, none comes back",
            || node::with(many_hogs),
        ),
    ]
}

/// None of them is to go.
pub(crate) fn of_all_kinds() -> [Wish; 4] {
    [
        Wish::holding("besteffort", 0),
        Wish {
            request: Some("128Mi"),
            ..Wish::holding("burstable", 100)
        },
        Wish {
            request: Some("128Mi"),
            is_guaranteed: true,
            ..Wish::holding("guaranteed", 100)
        },
        // Far beyond its request, and still not ours to take.
        Wish {
            namespace: "kube-system",
            request: Some("16Mi"),
            class: Some("system-node-critical"),
            ..Wish::holding("critical", 300)
        },
    ]
}

/// The one that exceeds its request goes, however much the others hold.
fn one_hog(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    let others = of_all_kinds();
    for wish in &others {
        node.apply(&wish.pod())?;
    }
    let mut manifest = Wish::holding("static", 100).pod();
    if let Some(spec) = manifest["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    let place = node.cluster.folder.join("manifests/static.json");
    std::fs::write(place, manifest.to_string())?;
    for wish in &others {
        node.until_running(wish.namespace, wish.name)?;
    }
    node.until_running("default", "static-node1")?;

    node.apply(&Wish::hog("hog", 500).pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    ensure!(decision.text("namespace") == "default", "{}", decision.0);
    let gone = evictor.wait_for("gone", Duration::from_secs(60))?;
    let pod = node.until_evicted("default", "hog")?;
    ensure!(
        record(&pod) == decision.text("id"),
        "{} is not {}",
        record(&pod),
        decision.text("id")
    );
    check_events(node, NODE, "hog", decision.text("id"))?;
    for wish in &others {
        node.lives_on(wish.namespace, wish.name)?;
    }
    let left = std::fs::read_dir(state.path().join("records"))?.count();
    ensure!(left == 0, "{left} records are said to be unfinished");
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 1, "{decisions} decisions");
    let after = gone.number("after_us").unwrap_or(0) / 1000;
    Ok(Outcome::Noted(format!(
        "torn down {after} ms after the decision"
    )))
}

/// One on the pod, one on its node, which no kubelet writes for us.
pub(crate) fn check_events(node: &Node, on: &str, pod: &str, id: &str) -> Result<()> {
    let event = node.until("the event on the pod", 10, |node| {
        Ok(node.events("default", pod, "Evicted")?.pop())
    })?;
    ensure!(
        text(&event, "/message").contains(id) && event["type"] == "Warning",
        "{event}"
    );
    let event = node.until("the event on the node", 10, |node| {
        Ok(node.events("default", on, "EvictionThresholdMet")?.pop())
    })?;
    ensure!(
        text(&event, "/message") == "Attempting to reclaim memory"
            // The kubelet's uid for it: by this `kubectl describe node` finds it.
            && text(&event, "/involvedObject/uid") == on,
        "{event}"
    );
    Ok(())
}

/// Naked ones that are always and never restarted, then those of a ReplicaSet, which are always restarted; each with a volume.
fn many_hogs(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    let mut victims = Vec::new();
    let began = now_ns();
    for number in 0..NAKED {
        let restart = if number % 2 == 0 { "Always" } else { "Never" };
        let hog = Wish {
            restart,
            ..with_volume("naked")
        };
        let name = format!("naked-{number}");
        node.apply(&hog.pod_named(&name))?;
        victims.push(node.until_evicted("default", &name)?);
    }
    let naked = seconds_since(began);
    let began = now_ns();
    victims.extend(replaced(node)?);
    let replaced = seconds_since(began);

    let watched = node.stay_evicted("default")?;
    ensure!(watched == victims.len(), "{watched} are on record");
    let mut nameless = 0;
    for victim in &victims {
        let uid = text(victim, "/metadata/uid");
        let namespace = text(victim, "/metadata/namespace");
        let pod = node.pod(namespace, text(victim, "/metadata/name"))?;
        check_evicted(&pod).with_context(|| "after the kubelet's next write")?;
        ensure!(text(&pod, "/metadata/uid") == uid, "{pod}");
        ensure!(!node.has_group(uid)?, "its cgroup is left: {pod}");
        ensure!(!node.has_volume(uid), "its volume is left: {pod}");
        nameless += usize::from(text(&pod, "/status/reason") != "Evicted");
    }
    ensure!(
        nameless * 10 < victims.len(),
        "{nameless} lost their reason"
    );
    evictor.drain();
    let (decisions, gone) = (
        evictor.of_kind("decision").count(),
        evictor.of_kind("gone").count(),
    );
    // The last replacement may have been taken away before it was on record.
    ensure!(
        decisions == victims.len() || decisions == victims.len() + 1,
        "{decisions} decisions for {} victims",
        victims.len()
    );
    Ok(Outcome::Noted(format!(
        "{} evicted ({NAKED} naked in {naked:.0} s, {} of a ReplicaSet in {replaced:.0} s), {gone} torn down in between, none revived, \
         {nameless} without reason",
        victims.len(),
        victims.len() - NAKED
    )))
}

fn with_volume(name: &'static str) -> Wish {
    Wish {
        volume: Some("/data"),
        ..Wish::hog(name, 1000)
    }
}

fn seconds_since(began: u64) -> f64 {
    (now_ns() - began) as f64 / 1e9
}

/// The victims of one ReplicaSet, whose controller makes a new hog for each.
fn replaced(node: &Node) -> Result<Vec<Value>> {
    node.apply(&with_volume("hogs").replica_set())?;
    let all = |node: &Node| -> Result<Vec<Value>> {
        let pods = node.get(&["pods", "--selector", "app=hogs"])?;
        Ok(pods["items"].as_array().cloned().unwrap_or_default())
    };
    let evicted = |node: &Node| -> Result<Vec<Value>> {
        let mut pods = all(node)?;
        // Whoever was scaled away while it was evicted is about to be gone.
        let is_leaving = |pod: &Value| pod.pointer("/metadata/deletionTimestamp").is_some();
        pods.retain(|pod| !record(pod).is_empty() && !is_leaving(pod));
        Ok(pods)
    };
    node.until(&format!("{REPLACED} victims"), 240, |node| {
        Ok((evicted(node)?.len() >= REPLACED).then_some(()))
    })?;
    node.until("the last one is replaced, too", 10, |node| {
        Ok((all(node)?.len() > REPLACED).then_some(()))
    })?;
    node.kubectl(&["scale", "replicaset", "hogs", "--replicas=0"])?;
    // The last one may be on its way still.
    node.until("no hog is left", 60, |node| {
        let set = node.get(&["replicaset", "hogs"])?;
        let pods = set.pointer("/status/replicas").and_then(Value::as_u64);
        Ok((pods == Some(0)).then_some(()))
    })?;
    evicted(node)
}
