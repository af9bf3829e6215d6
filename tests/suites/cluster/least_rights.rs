//! What the account may change: its own node and the pods on it, and no more, whatever the role says. With real requests, under a role
//! that allows all of them, so that it is not the role which refuses.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use eviction_tests::suite::Case;
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::account::{NAME, NAMESPACE};
use crate::api::text;
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "the account may change its own node and the pods on it, and no more",
        || node::with(story),
    )]
}

/// A Node object that no kubelet belongs to.
const ELSEWHERE: &str = "elsewhere";
const ROLE: &str = "least-rights";
const MARK: &str = r#"{"metadata":{"annotations":{"story":"least-rights"}}}"#;
const MARKED: &str = "/metadata/annotations/story";

const NO_NODE: &str = "the token of this account names no node";
const RBAC: &str = "User \"system:serviceaccount:kube-system:eviction\" cannot ";

fn story(node: &Node) -> Result<()> {
    for manifest in [elsewhere(), role(), binding()] {
        node.apply(&manifest)?;
    }
    let told = prepared(node).and_then(|()| told(node));
    // Before its pods: they would be looked for on a node that is not there.
    node.clean()?;
    for object in [
        ["clusterrolebinding", ROLE],
        ["clusterrole", ROLE],
        ["node", ELSEWHERE],
    ] {
        node.kubectl(&[&["delete"], &object[..]].concat())?;
    }
    node.kubectl(&["annotate", "node", NODE, "story-"])?;
    told
}

fn elsewhere() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": ELSEWHERE},
        "spec": {"unschedulable": true},
    })
}

/// More than any value of the chart gives.
fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": ROLE},
        "rules": [{
            "apiGroups": [""],
            "resources": ["pods", "pods/status", "nodes", "nodes/status"],
            "verbs": ["get", "patch", "delete"],
        }],
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ROLE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ROLE},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    })
}

/// A pod here, one that is the account's own, one elsewhere, one nowhere.
fn prepared(node: &Node) -> Result<()> {
    node.apply(&Wish::holding("here", 1).pod())?;
    let agent = Wish {
        namespace: NAMESPACE,
        ..Wish::holding("agent", 1)
    };
    let mut agent = agent.pod();
    agent["spec"]["serviceAccountName"] = json!(NAME);
    node.apply(&agent)?;
    node.apply(&Wish::holding("there", 1).pod_on(ELSEWHERE))?;
    let mut nowhere = Wish::holding("nowhere", 1).pod();
    nowhere["spec"]["nodeName"].take();
    nowhere["spec"]["nodeSelector"] = json!({"story": "nowhere"});
    node.apply(&nowhere)?;
    node.until_running("default", "here")?;
    node.until_running(NAMESPACE, "agent").map(drop)
}

/// One request, and what becomes of it.
struct Asked<'a> {
    verb: &'a [&'a str],
    object: [&'a str; 2],
}

impl Asked<'_> {
    fn arguments<'a>(&'a self, kubeconfig: &'a str) -> Vec<&'a str> {
        let mut all = vec![kubeconfig];
        all.extend(self.verb);
        all.extend(self.object);
        all
    }
}

const fn patch<'a>(kind: &'a str, name: &'a str) -> Asked<'a> {
    Asked {
        verb: &["patch", "--type=merge", "--patch", MARK],
        object: [kind, name],
    }
}

const fn patch_status<'a>(kind: &'a str, name: &'a str) -> Asked<'a> {
    Asked {
        verb: &[
            "patch",
            "--subresource=status",
            "--type=merge",
            "--patch",
            MARK,
        ],
        object: [kind, name],
    }
}

const fn delete<'a>(kind: &'a str, name: &'a str) -> Asked<'a> {
    Asked {
        verb: &["delete", "--wait=false"],
        object: [kind, name],
    }
}

fn refused(node: &Node, kubeconfig: &Path, asked: &Asked<'_>, said: &str) -> Result<()> {
    let account = format!("--kubeconfig={}", kubeconfig.display());
    let arguments = asked.arguments(&account);
    match node.kubectl(&arguments) {
        Ok(answer) => bail!("{arguments:?} was not refused: {answer}"),
        Err(error) => {
            let told = format!("{error:#}");
            ensure!(
                told.contains(said),
                "{arguments:?}, without {said:?}: {told}"
            );
            Ok(())
        }
    }
}

fn done(node: &Node, kubeconfig: &Path, asked: &Asked<'_>) -> Result<()> {
    let account = format!("--kubeconfig={}", kubeconfig.display());
    node.kubectl(&asked.arguments(&account)).map(drop)
}

fn told(node: &Node) -> Result<()> {
    let nobody = node.account_of_nobody()?;
    // The server takes a moment to know a policy; nothing that comes after this is allowed for want of one.
    node.until("the policy is in force", 30, |node| {
        refused(node, &nobody, &patch_status("pod", "here"), NO_NODE).map(Some)
    })?;
    understood(node)?;
    for asked in [
        delete("pod", "here"),
        patch_status("node", NODE),
        patch("node", NODE),
    ] {
        refused(node, &nobody, &asked, NO_NODE)?;
    }

    let own = node.account_of_node(NODE)?;
    let agent = node.account_of_pod("agent")?;
    for account in [&own, &agent] {
        for (asked, which) in [
            (
                patch_status("pod", "there"),
                "pods there is on node elsewhere",
            ),
            (patch("pod", "there"), "pods there is on node elsewhere"),
            (delete("pod", "there"), "pods there is on node elsewhere"),
            (patch_status("pod", "nowhere"), "pods nowhere is on no node"),
            (
                patch_status("node", ELSEWHERE),
                "nodes elsewhere is another node",
            ),
            (patch("node", ELSEWHERE), "nodes elsewhere is another node"),
            (delete("node", ELSEWHERE), "nodes elsewhere is another node"),
        ] {
            let said = format!("{which}, the token of node {NODE}");
            refused(node, account, &asked, &said)?;
        }
        let secrets = Asked {
            verb: &["get", "--all-namespaces"],
            object: ["secrets", "--output=name"],
        };
        let may_not = format!("{RBAC}list resource \"secrets\"");
        refused(node, account, &secrets, &may_not)?;
    }
    let foreign = node.account_of_node(ELSEWHERE)?;
    let said = "pods here is on node node1, the token of node elsewhere";
    refused(node, &foreign, &delete("pod", "here"), said)?;

    for account in [&own, &agent] {
        done(node, account, &patch_status("pod", "here"))?;
        done(node, account, &patch_status("node", NODE))?;
        done(node, account, &patch("node", NODE))?;
    }
    let marked = |kind: &str, name: &str| -> Result<bool> {
        Ok(text(&node.get(&[kind, name])?, MARKED) == "least-rights")
    };
    ensure!(
        marked("pod", "here")? && marked("node", NODE)?,
        "nothing was written"
    );
    ensure!(
        !marked("pod", "there")? && !marked("node", ELSEWHERE)?,
        "written elsewhere"
    );
    done(node, &own, &delete("pod", "here"))?;
    node.until("the pod of its node is gone", 60, |node| {
        Ok(node.pod("default", "here").is_err().then_some(()))
    })?;
    done(
        node,
        &agent,
        &Asked {
            verb: &["delete", "--wait=false", "--namespace", NAMESPACE],
            object: ["pod", "agent"],
        },
    )
}

/// The server has read all of its expressions, and has no doubt about one.
fn understood(node: &Node) -> Result<()> {
    let policy = node.until("the policy was looked at", 30, |node| {
        let policy = node.get(&["validatingadmissionpolicy", NAME])?;
        let seen = policy.pointer("/status/observedGeneration");
        Ok((seen == policy.pointer("/metadata/generation")).then_some(policy))
    })?;
    let doubts = policy.pointer("/status/typeChecking/expressionWarnings");
    ensure!(doubts.is_none(), "{doubts:?}");
    Ok(())
}
