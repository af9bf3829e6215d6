//! The chart, installed by the real helm.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use xtask::cluster::GUEST_NODE;
use xtask::image;

use crate::node::Node;

pub(crate) const NAMESPACE: &str = "kube-system";
const CHART: &str = "eviction-user/deploy/chart";

/// Installed until it is told to go.
pub(crate) struct Release(());

impl Release {
    /// Not the name that the suite's own service account has already: helm refuses what it did not make.
    pub(crate) const NAME: &str = "eviction-chart";

    /// With what is particular to this cluster: services have no addresses, the node's directories lie elsewhere, and the line is
    /// ours. Where the pods' cgroups are the kubelet's file says. `after`: what becomes of a victim's object.
    pub(crate) fn install(node: &Node, line: &str, after: &str) -> Result<Self> {
        let more = json!({"afterEviction": after});
        helm_with(node, "install", native(node, line, &more)?)?;
        Ok(Self(()))
    }

    /// The same with other values besides.
    pub(crate) fn install_with(node: &Node, line: &str, more: &Value) -> Result<Self> {
        helm_with(node, "install", native(node, line, more)?)?;
        Ok(Self(()))
    }

    /// To other values.
    pub(crate) fn upgrade(&self, node: &Node, line: &str, more: &Value) -> Result<()> {
        helm_with(node, "upgrade", native(node, line, more)?)
    }

    /// On the node in the guest, where everything is in its usual place. `more`: values besides.
    pub(crate) fn install_in_guest(node: &Node, line: &str, more: &Value) -> Result<Self> {
        let mut there = json!({
            "evictionHard": hard(line)?,
            "nodeSelector": {"kubernetes.io/hostname": GUEST_NODE},
            // Its CPU is emulated: a tenth of it takes half a minute to begin.
            "resources": {"cpu": "1"},
        });
        merge(&mut there, more);
        helm_with(node, "install", there)?;
        Ok(Self(()))
    }

    /// Nothing is left of it.
    pub(crate) fn uninstall(self, node: &Node) -> Result<()> {
        helm(node, &["uninstall", Self::NAME, "--wait"])?;
        let selector = format!("app.kubernetes.io/instance={}", Self::NAME);
        let kinds = "all,serviceaccounts,configmaps,networkpolicies,clusterroles,clusterrolebindings,\
             validatingadmissionpolicies,validatingadmissionpolicybindings";
        let all = [kinds, "--all-namespaces", "--selector", &selector];
        // Its pods' objects go a moment after it.
        node.until("nothing is left of what was uninstalled", 60, |node| {
            let left = node.get(&all)?;
            ensure!(left["items"] == json!([]), "uninstalled, but left: {left}");
            Ok(Some(()))
        })
    }
}

fn native(node: &Node, line: &str, more: &Value) -> Result<Value> {
    let folder = folder(node)?;
    let mut here = json!({
        "evictionHard": hard(line)?,
        "disk": {
            "kubeletRoot": node.cluster.kubelet_root(),
            "runtimeRoot": node.cluster.runtime_root(),
            "podLogs": node.cluster.pod_logs(),
        },
        "stateDir": folder.join("state"),
    });
    merge(&mut here, more);
    Ok(here)
}

fn merge(values: &mut Value, more: &Value) {
    for (key, value) in more.as_object().into_iter().flatten() {
        values[key] = value.clone();
    }
}

fn helm_with(node: &Node, what: &str, mut values: Value) -> Result<()> {
    values["apiServer"] = json!({
        "host": node.cluster.network.address.to_string(),
        "port": 6443,
    });
    let file = node.cluster.folder.join("install/values.json");
    std::fs::write(&file, values.to_string())?;
    let chart = node.workspace.root().join(CHART);
    let [chart, file] = [&chart, &file].map(|path| path.to_str());
    let (chart, file) = chart.zip(file).context("not UTF-8")?;
    helm(node, &[what, Release::NAME, chart, "--values", file])?;
    Ok(())
}

/// The chart's form of a line.
fn hard(line: &str) -> Result<Value> {
    let (signal, amount) = line.split_once('<').context("no line")?;
    Ok(json!({signal: amount}))
}

fn helm(node: &Node, arguments: &[&str]) -> Result<String> {
    let all = [arguments, &["--namespace", NAMESPACE]].concat();
    node.cluster.run(&node.parts, "helm", &all)
}

/// For what is installed, with the image given to the runtime.
pub(crate) fn folder(node: &Node) -> Result<PathBuf> {
    let folder = node.cluster.folder.join("install");
    let archive = image::archive(&node.workspace, &node.programs.eviction, &folder)?;
    node.cluster.import(&node.parts, &archive)?;
    Ok(folder)
}

/// The DaemonSet `name` has its pod on the node, and that is ready.
pub(crate) fn until_ready(node: &Node, name: &str) -> Result<()> {
    let agent = node.until("the DaemonSet's pod is ready", 120, |node| {
        let set = node.get(&["daemonset", name, "--namespace", NAMESPACE])?;
        let ready = set.pointer("/status/numberReady").and_then(Value::as_u64);
        Ok((ready == Some(1)).then_some(()))
    });
    agent.with_context(|| format!("it says: {}; {}", logs(node, name), waiting(node, name)))
}

/// Why its container is not there.
fn waiting(node: &Node, name: &str) -> String {
    let selector = format!("app.kubernetes.io/instance={name}");
    let why = "jsonpath={.items[*].status.containerStatuses[*].state.waiting.message}";
    let pods = [
        "get",
        "pods",
        "--namespace",
        NAMESPACE,
        "--selector",
        &selector,
        "-o",
        why,
    ];
    node.kubectl(&pods)
        .unwrap_or_else(|error| format!("{error:#}"))
}

/// All that it has printed.
pub(crate) fn logs(node: &Node, name: &str) -> String {
    let set = format!("daemonset/{name}");
    let logs = node.kubectl(&["logs", "--namespace", NAMESPACE, &set]);
    logs.unwrap_or_else(|error| format!("{error:#}"))
}

/// Whom it has chosen, by what it has printed.
pub(crate) fn decisions(told: &str) -> Result<Vec<Value>> {
    let records = told
        .lines()
        .filter(|line| line.contains(r#""record":"decision""#));
    Ok(records
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()?)
}
