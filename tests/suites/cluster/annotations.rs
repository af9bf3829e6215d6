//! What a pod asks for by annotations counts where the configuration says so, and nowhere else.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::http::get;
use eviction_tests::suite::Case;
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::kubelet::eviction;
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "annotations spare a pod where they are honoured, malformed ones and others' are ignored",
        || node::with(story),
    )]
}

const CONFIG: &str =
    "apiVersion: eviction.dev/v1alpha1\nkind: EvictionConfiguration\nhonorAnnotations: true\n";
const PATIENCE: Duration = Duration::from_secs(60);

fn asking(wish: &Wish, key: &str, value: &str) -> Value {
    let mut pod = wish.pod();
    pod["metadata"]["annotations"] = json!({key: value});
    pod
}

fn story(node: &Node) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, CONFIG)?;
    let config = format!("--config={}", config.display());

    // Together the first two are more than the line leaves; the bigger one would go.
    let spared = Wish::holding("spared", 650);
    node.apply(&asking(&spared, "eviction.dev/protect", "true"))?;
    let small = Wish::holding("small", 1);
    node.apply(&asking(&small, "eviction.dev/prefer", "1"))?;
    node.until_running("default", "spared")?;
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_told(std::slice::from_ref(&config), LINE, state.path())?;
    let started = evictor.wait_for("started", Duration::from_secs(1))?;
    let address = started.text("metrics").parse().context("no address")?;
    let talker = Wish::holding("talker", 550);
    node.apply(&asking(&talker, "eviction.dev/protect", "please"))?;
    let decision = evictor.wait_for("decision", PATIENCE)?;
    ensure!(decision.text("victim") == "talker", "{}", decision.0);
    node.until_torn_down("default", "talker")?;
    node.lives_on("default", "spared")?;
    node.lives_on("default", "small")?;
    node.until(
        "the malformed annotation that is left is counted",
        30,
        |_| {
            let told = get(address, "/metrics")?.body;
            Ok(told
                .contains("eviction_annotations_malformed 1\n")
                .then_some(()))
        },
    )?;
    let (_, told) = evictor.terminate(PATIENCE)?;
    for (key, value) in [("protect", "please"), ("prefer", "1")] {
        let said = format!("annotation eviction.dev/{key}: \\\"{value}\\\" is ignored: write");
        let times = told.matches(&said).count();
        ensure!(times == 1, "{said}: told {times} times: {told}");
    }

    let kubeconfig = format!("--kubeconfig={}", node.kubeconfig.display());
    let node_name = format!("--node-name={NODE}");
    let explain = ["explain", "--platform=kubernetes", &node_name, &kubeconfig];
    let line = format!("--eviction-hard={LINE}");
    let (told, _) = eviction(node, &[&explain[..], &[&line, &config]].concat())?;
    // Its columns are broken into lines.
    let words: Vec<&str> = told.split_whitespace().collect();
    let verdict = "not: protected by annotation eviction.dev/protect";
    ensure!(words.join(" ").contains(verdict), "{told}");

    // Nobody has asked for annotations to be honoured: the same pod goes.
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    node.apply(&Wish::holding("filler", 550).pod())?;
    let decision = evictor.wait_for("decision", PATIENCE)?;
    ensure!(decision.text("victim") == "spared", "{}", decision.0);
    node.until_torn_down("default", "spared")?;
    node.lives_on("default", "filler")
}
