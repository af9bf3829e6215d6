//! As people install it: the image, the manifests of `deploy/kustomize`, the real scheduler, its own service account.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};
use xtask::image;

use crate::api::{record, text};
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

const STARTED: &str = r#""record":"started""#;
const DEPLOY: &str = "eviction-user/deploy/kustomize";

pub(crate) fn cases() -> Vec<Case> {
    ["base", "privileged"]
        .map(|variant| {
            let name = format!("a DaemonSet from the manifests, {variant}, evicts a hog");
            Case::new(name, move || node::with(|node| installed(node, variant)))
        })
        .into()
}

fn installed(node: &Node, variant: &str) -> Result<Outcome> {
    let folder = node.cluster.folder.join("install");
    let built = &node.programs.eviction;
    let archive = image::archive(&node.workspace, built, &folder)?;
    node.cluster.import(&node.parts, &archive)?;
    for part in ["base", "privileged"] {
        copy(
            &node.workspace.root().join(DEPLOY).join(part),
            &folder.join(part),
        )?;
    }
    let overlay = folder.join("overlay");
    std::fs::create_dir_all(&overlay)?;
    let kustomization = overlay.join("kustomization.yaml");
    std::fs::write(kustomization, here(node, variant)?.to_string())?;
    let overlay = overlay.to_str().context("not UTF-8")?;
    node.kubectl(&["apply", "--kustomize", overlay])?;
    let agent = node.until("the DaemonSet's pod is ready", 60, |node| {
        let set = node.get(&["daemonset", "eviction", "--namespace", "kube-system"])?;
        let ready = set.pointer("/status/numberReady").and_then(Value::as_u64);
        Ok((ready == Some(1)).then_some(()))
    });
    agent.with_context(|| format!("it says: {}", logs(node)))?;
    let told = logs(node);
    let started = told.lines().find(|line| line.contains(STARTED));
    let started = started.with_context(|| format!("no started record: {told}"))?;
    let started: Value = serde_json::from_str(started)?;
    let source = text(&started, "/memory");
    ensure!(
        source.contains('/'),
        "no eBPF event of memory: {source}: {}",
        started["notes"]
    );

    node.apply(&Wish::hog("hog", 500).pod())?;
    let pod = node.until_evicted("default", "hog");
    let pod = pod.with_context(|| format!("it says: {}", logs(node)))?;
    let told = logs(node);
    ensure!(
        told.contains(&format!(r#""id":"{}""#, record(&pod))),
        "no record {}: {told}",
        record(&pod)
    );
    let own = node.get(&[
        "pods",
        "--namespace",
        "kube-system",
        "--selector",
        "app.kubernetes.io/name=eviction",
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

/// What is particular to this cluster: services have no addresses, the pods' cgroups lie elsewhere, and the line is ours.
fn here(node: &Node, variant: &str) -> Result<Value> {
    let root = node.cluster.pods_group()?;
    let state = node.cluster.folder.join("install/state");
    let container = "/spec/template/spec/containers/0";
    let add = |path: String, value: Value| json!({"op": "add", "path": path, "value": value});
    let argument = |text: String| add(format!("{container}/args/-"), json!(text));
    let variable = |name: &str, value: String| {
        add(
            format!("{container}/env/-"),
            json!({"name": name, "value": value}),
        )
    };
    let patch = json!([
        argument(format!("--root={}", root.display())),
        argument(format!("--eviction-hard={LINE}")),
        variable("KUBERNETES_SERVICE_HOST", node.cluster.network.address.to_string()),
        variable("KUBERNETES_SERVICE_PORT", "6443".to_owned()),
        {"op": "replace", "path": "/spec/template/spec/volumes/1/hostPath/path", "value": state},
    ]);
    Ok(json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [format!("../{variant}")],
        "patches": [{
            "target": {"kind": "DaemonSet", "name": "eviction"},
            "patch": patch.to_string(),
        }],
    }))
}

/// All that it has printed.
fn logs(node: &Node) -> String {
    let logs = node.kubectl(&["logs", "--namespace", "kube-system", "daemonset/eviction"]);
    logs.unwrap_or_else(|error| format!("{error:#}"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for file in std::fs::read_dir(from)? {
        let file = file?;
        std::fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}
