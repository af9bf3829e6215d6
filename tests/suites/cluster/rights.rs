//! An account without the right to record an eviction evicts nobody: its victims would be started again, to be killed again. Nor does
//! who has the name of no node.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::http::get;
use eviction_tests::suite::Case;
use serde_json::{Value, json};

use crate::node::{self, LINE, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "without the right to record it nobody is evicted, with it at once",
            || node::with(missing_right),
        ),
        Case::new(
            "with the name of no node nobody is evicted, and it is not ready",
            || node::with(no_such_node),
        ),
    ]
}

const RBAC: &str = "rbac.authorization.k8s.io";

fn role(name: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    })
}

fn binding(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": format!("{RBAC}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    })
}

fn missing_right(node: &Node) -> Result<()> {
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": "default"}});
    for manifest in [account, role("reader"), binding("reader", "reader")] {
        node.apply(&manifest)?;
    }
    let token = node.kubectl(&["create", "token", "reader", "--namespace", "default"])?;
    let kubeconfig = node.cluster.write_kubeconfig("reader", token.trim())?;
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_as(&kubeconfig, LINE, state.path())?;
    let started = evictor.wait_for("started", Duration::from_secs(1))?;
    let address = started
        .text("metrics")
        .parse()
        .context("no address of the probes")?;
    node.until("the missing right is named", 20, |_| {
        let unready = get(address, "/readyz")?;
        let named = [
            "to list nodes",
            "to watch nodes",
            "to patch pods/status are missing",
        ];
        let named = named.iter().all(|right| unready.body.contains(right));
        Ok((unready.status == 503 && named).then_some(()))
    })?;

    // More than the line leaves, and less than the limit.
    node.apply(&Wish::holding("holder", 1200).pod())?;
    evictor.wait_for("no-candidate", Duration::from_secs(60))?;
    node.lives_on("default", "holder")?;
    evictor.drain();
    ensure!(evictor.of_kind("decision").count() == 0, "a decision");

    node.apply(&binding("reader-evicts", "eviction"))?;
    let decision = evictor.wait_for("decision", Duration::from_secs(30))?;
    ensure!(decision.text("victim") == "holder", "{}", decision.0);
    node.until_torn_down("default", "holder")?;
    Ok(())
}

/// What is to be read of `/readyz`.
const NO_NODE: &str = "there is no node late: is NODE_NAME set from spec.nodeName?";

fn no_such_node(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_of("late", LINE, state.path())?;
    let started = evictor.wait_for("started", Duration::from_secs(1))?;
    let address = started
        .text("metrics")
        .parse()
        .context("no address of the probes")?;
    let until = |what: &str, status: u16, said: &str| {
        node.until(what, 20, |_| {
            let told = get(address, "/readyz")?;
            Ok((told.status == status && told.body.contains(said)).then_some(()))
        })
    };
    until("the missing node is named", 503, NO_NODE)?;
    // More than the line leaves, and less than the limit.
    node.apply(&Wish::holding("holder", 1200).pod())?;
    evictor.wait_for("no-candidate", Duration::from_secs(60))?;

    let late = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "late"},
        // Nothing is scheduled here.
        "spec": {"unschedulable": true},
    });
    node.apply(&late)?;
    until("it is ready", 200, "pods: 0 on this node")?;
    node.kubectl(&["delete", "node", "late"])?;
    until("the node's end is told", 503, NO_NODE)?;
    node.lives_on("default", "holder")?;
    evictor.drain();
    ensure!(evictor.of_kind("decision").count() == 0, "a decision");
    Ok(())
}
