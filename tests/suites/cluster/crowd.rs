//! As many real pods as a kubelet takes by default, and a hog among them.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::now_ns;
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};

use crate::api::{phase, record, restarts, text};
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new("110 real pods and a hog: the hog goes", || {
        node::with(crowd)
    })]
}

/// The kubelet's default of `maxPods`.
const PODS: usize = 110;

fn crowd(node: &Node) -> Result<Outcome> {
    let began = now_ns();
    let wish = Wish::holding("crowd", 0);
    let pods: Vec<Value> = (0..PODS)
        .map(|number| wish.pod_named(&format!("crowd-{number}")))
        .collect();
    node.apply(&json!({"apiVersion": "v1", "kind": "List", "items": pods}))?;
    node.until("all of them run", 240, |node| {
        Ok((running(node) == PODS).then_some(()))
    })
    .with_context(|| format!("{} run", running(node)))?;
    let up = (now_ns() - began) as f64 / 1e9;

    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    node.apply(&Wish::hog("hog", 500).pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    let candidates = decision.0["ranking"]["candidates"].as_array();
    let candidates = candidates.context("no ranking")?.len();
    ensure!(candidates == PODS + 1, "{candidates} pods were ranked");
    let kill = evictor.wait_for("kill", Duration::from_secs(5))?;
    evictor.wait_for("gone", Duration::from_secs(60))?;
    node.until_evicted("default", "hog")?;
    for pod in all(node)? {
        let name = text(&pod, "/metadata/name");
        let lives = phase(&pod) == "Running" && record(&pod).is_empty();
        ensure!(
            name == "hog" || lives && restarts(&pod) == Some(0),
            "{name} did not live on: {pod}"
        );
    }
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 1, "{decisions} decisions");
    let look = decision.number("sample_age_us").context("no age")? as f64 / 1000.0;
    let to_kill = (kill.t_ns() - decision.t_ns()) as f64 / 1e6;
    Ok(Outcome::Noted(format!(
        "{PODS} up in {up:.0} s; look and decision {look:.1} ms, the kill done {to_kill:.1} ms later"
    )))
}

fn all(node: &Node) -> Result<Vec<Value>> {
    let pods = node.get(&["pods", "--namespace", "default"])?;
    Ok(pods["items"].as_array().cloned().unwrap_or_default())
}

fn running(node: &Node) -> usize {
    let pods = all(node).unwrap_or_default();
    pods.iter().filter(|pod| phase(pod) == "Running").count()
}
