//! As many real pods as a kubelet takes by default, and a hog among them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::now_ns;
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};

use crate::api::{phase, record, restarts, text};
use crate::mapping::{Mapped, judge};
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("110 real pods and a hog: the hog goes", || {
            node::with(crowd)
        }),
        Case::new(
            "pods that come and go as fast as the node can are taken for nobody else",
            || node::with(coming_and_going),
        ),
    ]
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

/// As many at a time, so long.
const AT_ONCE: usize = 10;
const A_MINUTE: u64 = 60_000_000_000;
/// What pods hold, in turns, and what one may have beside that: by its use each is told from its neighbours.
const HELD_MIB: [u64; 3] = [0, 24, 48];
const BESIDE_MIB: u64 = 20;

fn held_mib(number: usize) -> u64 {
    HELD_MIB[number % HELD_MIB.len()]
}

/// Each pod's name says what it holds; as soon as all of a batch run they make room for the next.
fn coming_and_going(node: &Node) -> Result<Outcome> {
    let mut evictor = node.dry_evictor()?;
    let mut known = BTreeMap::new();
    let until = now_ns() + A_MINUTE;
    let mut batches = 0;
    while now_ns() < until {
        let pods = (0..AT_ONCE).map(|number| {
            let mib = held_mib(batches + number);
            Wish::holding("come", mib).pod_named(&format!("come-{batches}-{number}-{mib}"))
        });
        let made = node.create(&pods.collect::<Vec<_>>())?;
        let names: Vec<String> = made.keys().cloned().collect();
        known.extend(made);
        node.until("a batch runs", 60, |node| {
            let pods = all(node)?;
            let runs = |name: &&String| {
                let mut own = pods
                    .iter()
                    .filter(|pod| text(pod, "/metadata/name") == **name);
                own.any(|pod| phase(pod) == "Running")
            };
            Ok((names.iter().filter(runs).count() == AT_ONCE).then_some(()))
        })?;
        let mut delete = vec!["delete", "pods", "--wait=false", "--grace-period=1"];
        delete.extend(names.iter().map(String::as_str));
        node.kubectl(&delete)?;
        batches += 1;
    }
    evictor.drain();
    let holds_no_more = |name: &str, candidate: &Value| {
        let held = name.rsplit('-').next().and_then(|mib| mib.parse().ok());
        let used = candidate["usage"].as_u64();
        held.zip(used)
            .is_some_and(|(held, used): (u64, u64)| used < (held + BESIDE_MIB) << 20)
    };
    let Mapped { seen, unmapped } = judge(&evictor, &known, holds_no_more)?;
    ensure!(seen > known.len() / 2, "only {seen} were ranked");
    Ok(Outcome::Noted(format!(
        "{} pods in a minute, {seen} times ranked under their names, {unmapped} times not known yet, none wrong",
        known.len()
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
