//! The chart upgraded while an eviction runs, and taken away again.

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::api::text;
use crate::chart::{NAMESPACE, Release, decisions, logs, until_ready};
use crate::conditions;
use crate::node::{self, LINE, Node};
use crate::soft;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "upgraded while an eviction runs: the successor finishes it; uninstalled: nothing is left",
        || node::with(upgraded),
    )]
}

/// Seconds: time enough for a pod to be replaced.
const GRACE: u64 = 25;

fn upgraded(node: &Node) -> Result<Outcome> {
    let (signal, amount) = soft::SOFT.split_once('<').context("no line")?;
    let (_, length) = soft::FOR.split_once('=').context("no grace")?;
    let mut values = json!({
        "evictionSoft": {signal: amount},
        "evictionSoftGracePeriod": {signal: length},
        "evictionMaxPodGracePeriod": GRACE,
    });
    let release = Release::install_with(node, LINE, &values)?;
    values["podAnnotations"] = json!({"example.com/version": "2"});
    let told = finished_by_the_successor(node, &release, &values)
        .with_context(|| format!("it says: {}", logs(node, Release::NAME)));
    release.uninstall(node)?;
    let told = told?;
    ensure!(
        !own_conditions(node)?.is_empty(),
        "no condition was written"
    );
    let (code, cleaned) = conditions::clean(node, &["--all-nodes"])?;
    ensure!(code == 0, "{cleaned}");
    let left = own_conditions(node)?;
    ensure!(left.is_empty(), "left on the node: {left:?}");
    Ok(told)
}

fn finished_by_the_successor(node: &Node, release: &Release, values: &Value) -> Result<Outcome> {
    until_ready(node, Release::NAME)?;
    let sibling = soft::slow("sibling", 100);
    node.apply(&sibling)?;
    node.until_running("default", "sibling")?;
    node.apply(&soft::slow("hog", soft::BEYOND_SOFT))?;
    soft::until_leaving(node, "hog", GRACE)?;
    let first = decisions(&logs(node, Release::NAME))?;
    ensure!(
        first.len() == 1 && text(&first[0], "/victim") == "hog",
        "{first:?}"
    );
    let before = agent(node)?;
    release.upgrade(node, LINE, values)?;
    node.until("the pod is replaced", 60, |node| {
        Ok((agent(node)? != before).then_some(()))
    })?;
    until_ready(node, Release::NAME)?;
    let taken_over = node.until("the successor goes on with it", 30, |node| {
        Ok(records(&logs(node, Release::NAME), "taken-over").pop())
    })?;
    let uid = text(&taken_over, "/uid").to_owned();
    soft::until_no_object(node, "hog")?;
    node.until("the successor has seen its end", 30, |node| {
        let gone = records(&logs(node, Release::NAME), "gone");
        Ok(gone
            .iter()
            .any(|gone| text(gone, "/uid") == uid)
            .then_some(()))
    })?;
    let second = decisions(&logs(node, Release::NAME))?;
    ensure!(second.is_empty(), "somebody else was chosen: {second:?}");
    node.lives_on("default", "sibling")?;
    Ok(Outcome::Noted(format!(
        "taken over with {} ms of its grace left",
        taken_over["grace_ms"]
    )))
}

/// The uid of the only one.
fn agent(node: &Node) -> Result<String> {
    let selector = format!("app.kubernetes.io/instance={}", Release::NAME);
    let pods = node.get(&["pods", "--namespace", NAMESPACE, "--selector", &selector])?;
    let pods = pods["items"].as_array().into_iter().flatten();
    let mut alive = pods.filter(|pod| pod.pointer("/metadata/deletionTimestamp").is_none());
    let pod = alive.next().context("there is none just now")?;
    ensure!(alive.next().is_none(), "more than one");
    Ok(text(pod, "/metadata/uid").to_owned())
}

fn records(told: &str, kind: &str) -> Vec<Value> {
    let records = told
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    records
        .filter(|record: &Value| record["record"] == kind)
        .collect()
}

fn own_conditions(node: &Node) -> Result<Vec<String>> {
    let object = node.get(&["node", NODE])?;
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    let kinds = conditions
        .into_iter()
        .flatten()
        .map(|one| text(one, "/type"));
    let ours = kinds.filter(|kind| kind.starts_with("eviction.dev/"));
    Ok(ours.map(str::to_owned).collect())
}
