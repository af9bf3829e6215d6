//! Conditions and a taint of our own on the node, which others see while the kubelet's stay untouched.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::scenario::Evictor;
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::api::{phase, text};
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "case 45: a condition and a taint of ours hold over restarts, and go when their period is over",
        || node::with(over_restarts),
    )]
}

pub(crate) const MEMORY: &str = "eviction.dev/MemoryPressure";
const TAINT: &str = "eviction.dev/memory-pressure";
const OTHERS: &str = "example.com/theirs";
const RBAC: &str = "rbac.authorization.k8s.io";

const FLAGS: [&str; 3] = [
    "--node-conditions=on",
    "--node-taint=on",
    "--eviction-pressure-transition-period=20s",
];

fn over_restarts(node: &Node) -> Result<Outcome> {
    may_taint(node, true)?;
    node.kubectl(&["taint", "node", NODE, &format!("{OTHERS}=1:NoSchedule")])?;
    let told = told(node);
    node.kubectl(&["taint", "node", NODE, &format!("{OTHERS}-")])?;
    may_taint(node, false)?;
    told
}

fn told(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_telling(&FLAGS, LINE, state.path())?;
    until_told(node, "False")?;

    // Nobody is to go for it.
    let holder = Wish {
        namespace: "kube-system",
        class: Some("system-node-critical"),
        ..Wish::holding("holder", 1200)
    };
    node.apply(&holder.pod())?;
    evictor.wait_for("no-candidate", Duration::from_secs(60))?;
    let raised = until_told(node, "True")?;
    ensure!(
        text(&raised, "/reason") == "EvictionThresholdMet",
        "{raised}"
    );
    let tainted = node.until("the taint", 20, |node| {
        let taints = taints(node)?;
        Ok(taints.contains(&TAINT.to_owned()).then_some(taints))
    })?;
    ensure!(tainted.contains(&OTHERS.to_owned()), "{tainted:?}");
    let own = node_condition(node, "MemoryPressure")?;
    ensure!(own["status"] == "False", "the kubelet's own: {own}");

    // One that tolerates the others' taint only.
    let mut waits = Wish::holding("waits", 0).pod();
    let spec = waits["spec"].as_object_mut().context("no spec")?;
    spec.remove("nodeName");
    spec.insert(
        "tolerations".to_owned(),
        json!([{"key": OTHERS, "operator": "Exists"}]),
    );
    node.apply(&waits)?;
    node.until("it cannot be scheduled", 30, |node| {
        let pod = node.pod("default", "waits")?;
        let conditions = pod.pointer("/status/conditions");
        let why = conditions.map(Value::to_string).unwrap_or_default();
        Ok((phase(&pod) == "Pending" && why.contains("Unschedulable")).then_some(()))
    })?;

    let beat = node_condition(node, "Ready")?["lastHeartbeatTime"].clone();
    node.cluster.restart_kubelet(&node.parts)?;
    node.until("the kubelet has written its status", 60, |node| {
        let ready = node_condition(node, "Ready")?;
        Ok((ready["lastHeartbeatTime"] != beat && ready["status"] == "True").then_some(()))
    })?;
    still_holds(node, &raised)?;

    // The cause ends while nobody looks.
    end(&mut evictor)?;
    let now = ["--grace-period=0", "--force", "--wait=false"];
    let pod = ["delete", "pod", "holder", "--namespace", "kube-system"];
    node.kubectl(&[&pod[..], &now[..]].concat())?;
    still_holds(node, &raised)?;
    let mut evictor = node.evictor_telling(&FLAGS, LINE, state.path())?;
    still_holds(node, &raised)?;
    let over = until_told(node, "False")?;
    ensure!(
        over["lastTransitionTime"] != raised["lastTransitionTime"],
        "{over}"
    );
    node.until_running("default", "waits")?;
    let left = taints(node)?;
    ensure!(left == [OTHERS], "{left:?}");
    evictor.drain();
    ensure!(evictor.of_kind("decision").count() == 0, "a decision");

    // It leaves what it has written, for its successor.
    end(&mut evictor)?;
    ensure!(node_condition(node, MEMORY)? != Value::Null, "gone with it");
    let cleaned = clean(node, &["--node-name", NODE])?;
    ensure!(
        cleaned == (0, format!("{NODE}: removed condition {MEMORY}\n")),
        "{cleaned:?}"
    );
    ensure!(node_condition(node, MEMORY)? == Value::Null, "still there");
    let cleaned = clean(node, &["--all-nodes"])?;
    ensure!(
        cleaned.0 == 0 && cleaned.1.contains(&format!("{NODE}: nothing of ours")),
        "{cleaned:?}"
    );
    let cleaned = clean(node, &["--node-name", "nobody"])?;
    ensure!(
        cleaned.0 == 2 && cleaned.1.contains("--node-name: there is no node nobody"),
        "{cleaned:?}"
    );
    ensure!(clean(node, &[])?.0 == 2, "no node is named");
    let held = format!(
        "while it held: {}; after: {}; taints {tainted:?}, then {left:?}",
        raised, over
    );
    Ok(Outcome::Noted(held))
}

/// The right that the chart gives with `nodeTaint`, and the one that `node clean` needs.
fn may_taint(node: &Node, may: bool) -> Result<()> {
    let name = "eviction-taints";
    if !may {
        node.kubectl(&["delete", "clusterrolebinding,clusterrole", name])?;
        return Ok(());
    }
    node.apply(&json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]}],
    }))?;
    node.apply(&json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "eviction", "namespace": "kube-system"}],
    }))
}

/// Null: there is none.
pub(crate) fn node_condition(node: &Node, type_: &str) -> Result<Value> {
    let object = node.get(&["node", NODE])?;
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == type_);
    Ok(found.cloned().unwrap_or_default())
}

/// Keys.
fn taints(node: &Node) -> Result<Vec<String>> {
    let object = node.get(&["node", NODE])?;
    let taints = object.pointer("/spec/taints").and_then(Value::as_array);
    let keys = taints.into_iter().flatten();
    Ok(keys.map(|taint| text(taint, "/key").to_owned()).collect())
}

pub(crate) fn until_told(node: &Node, status: &str) -> Result<Value> {
    until_told_of(node, MEMORY, status)
}

pub(crate) fn until_told_of(node: &Node, kind: &str, status: &str) -> Result<Value> {
    node.until(&format!("{kind} is {status}"), 60, |node| {
        let condition = node_condition(node, kind)?;
        Ok((condition["status"] == status).then_some(condition))
    })
}

/// The same as when it was raised: it was never taken back in between.
fn still_holds(node: &Node, raised: &Value) -> Result<()> {
    let condition = node_condition(node, MEMORY)?;
    ensure!(
        condition["status"] == "True"
            && condition["lastTransitionTime"] == raised["lastTransitionTime"],
        "{condition} is not {raised}"
    );
    let taints = taints(node)?;
    ensure!(
        taints.contains(&TAINT.to_owned()) && taints.contains(&OTHERS.to_owned()),
        "{taints:?}"
    );
    Ok(())
}

/// As a DaemonSet's pod is ended.
pub(crate) fn end(evictor: &mut Evictor) -> Result<()> {
    let (code, told) = evictor.terminate(Duration::from_secs(20))?;
    ensure!(code == Some(0), "{code:?}: {told}");
    Ok(())
}

/// Exit code, and what it says.
pub(crate) fn clean(node: &Node, which: &[&str]) -> Result<(i32, String)> {
    let ended = Command::new(&node.programs.eviction)
        .args(["node", "clean", "--kubeconfig"])
        .arg(&node.kubeconfig)
        .args(which)
        .output()?;
    let code = ended.status.code().context("killed")?;
    let told = if code == 0 {
        ended.stdout
    } else {
        ended.stderr
    };
    Ok((code, String::from_utf8(told)?))
}
