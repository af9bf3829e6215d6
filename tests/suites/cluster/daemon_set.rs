//! As people install it: the image, the chart by the real helm or the manifests of `deploy/kustomize`, the real scheduler, its
//! own service account.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};

use crate::api::{record, text};
use crate::chart::{self, NAMESPACE, Release, logs, until_ready};
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

const STARTED: &str = r#""record":"started""#;
const KUSTOMIZE: &str = "eviction-user/deploy/kustomize";
/// The manifests' own.
const NAME: &str = "eviction";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a DaemonSet from the chart evicts a hog", || {
            node::with(from_the_chart)
        }),
        Case::new(
            "a DaemonSet from the manifests, privileged, evicts a hog",
            || node::with(from_the_manifests),
        ),
    ]
}

fn from_the_chart(node: &Node) -> Result<Outcome> {
    let release = Release::install(node, LINE, "keep")?;
    let outcome = evicts(node, Release::NAME);
    release.uninstall(node)?;
    outcome
}

fn from_the_manifests(node: &Node) -> Result<Outcome> {
    let folder = chart::folder(node)?;
    for part in ["base", "privileged"] {
        let from = node.workspace.root().join(KUSTOMIZE).join(part);
        copy(&from, &folder.join(part))?;
    }
    let overlay = folder.join("overlay");
    std::fs::create_dir_all(&overlay)?;
    let kustomization = overlay.join("kustomization.yaml");
    std::fs::write(kustomization, here(node, "privileged")?.to_string())?;
    let overlay = overlay.to_str().context("not UTF-8")?;
    node.kubectl(&["apply", "--kustomize", overlay])?;
    evicts(node, NAME)
}

/// The DaemonSet `name` comes up, sees events, evicts a hog, says so, and is Guaranteed and never restarted.
fn evicts(node: &Node, name: &str) -> Result<Outcome> {
    until_ready(node, name)?;
    let told = logs(node, name);
    let started = told.lines().find(|line| line.contains(STARTED));
    let started = started.with_context(|| format!("no started record: {told}"))?;
    let started: Value = serde_json::from_str(started)?;
    let source = text(&started, "/memory");
    // As an ordinary thread it would wait for its pod's CPU quota, up to 100 ms.
    ensure!(
        !started["notes"].to_string().contains("SCHED_FIFO refused"),
        "{}",
        started["notes"]
    );
    ensure!(
        source.contains('/'),
        "no eBPF event of memory: {source}: {}",
        started["notes"]
    );

    node.apply(&Wish::hog("hog", 500).pod())?;
    let pod = node.until_evicted("default", "hog");
    let pod = pod.with_context(|| format!("it says: {}", logs(node, name)))?;
    let told = logs(node, name);
    ensure!(
        told.contains(&format!(r#""id":"{}""#, record(&pod))),
        "no record {}: {told}",
        record(&pod)
    );
    let own = node.get(&[
        "pods",
        "--namespace",
        NAMESPACE,
        "--selector",
        &format!("app.kubernetes.io/instance={name}"),
    ])?;
    ensure!(
        own.pointer("/items/0/status/qosClass") == Some(&json!("Guaranteed")),
        "{own}"
    );
    let restarts = own.pointer("/items/0/status/containerStatuses/0/restartCount");
    ensure!(
        restarts == Some(&json!(0)),
        "it was restarted: {restarts:?}"
    );
    Ok(Outcome::Noted(format!("events from {source}")))
}

/// What is particular to this cluster: services have no addresses, and the line is ours. Where the pods' cgroups are the kubelet's
/// file says.
fn here(node: &Node, variant: &str) -> Result<Value> {
    let state = node.cluster.folder.join("install/state");
    let container = "/spec/template/spec/containers/0";
    let add = |path: String, value: Value| json!({"op": "add", "path": path, "value": value});
    let variable = |name: &str, value: String| {
        add(
            format!("{container}/env/-"),
            json!({"name": name, "value": value}),
        )
    };
    let patch = json!([
        // Its default; another argument missing would show.
        {"op": "replace", "path": format!("{container}/args/5"), "value": format!("--eviction-hard={LINE}")},
        variable("KUBERNETES_SERVICE_HOST", node.cluster.network.address.to_string()),
        variable("KUBERNETES_SERVICE_PORT", "6443".to_owned()),
        {"op": "replace", "path": "/spec/template/spec/volumes/1/hostPath/path", "value": state},
    ]);
    Ok(json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [format!("../{variant}")],
        "patches": [{
            "target": {"kind": "DaemonSet", "name": NAME},
            "patch": patch.to_string(),
        }],
    }))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}
