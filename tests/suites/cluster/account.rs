//! The service account of the manifests, with its rights and what holds it to its node, and its tokens.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Value;
use xtask::cluster::{Cluster, Parts};

use crate::api::text;
use crate::node::Node;

pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const NAME: &str = "eviction";

/// What is applied of the kustomize base: all but the DaemonSet.
const MANIFESTS: [(&str, &str); 2] = [
    (
        "rbac.yaml",
        include_str!("../../../eviction-user/deploy/kustomize/base/rbac.yaml"),
    ),
    (
        "node-restriction.yaml",
        include_str!("../../../eviction-user/deploy/kustomize/base/node-restriction.yaml"),
    ),
];

pub(crate) fn make(cluster: &Cluster, parts: &Parts) -> Result<()> {
    for (name, text) in MANIFESTS {
        let path = cluster.folder.join(name);
        std::fs::write(&path, text)?;
        let path = path.to_str().context("not UTF-8")?;
        cluster.kubectl(parts, &["apply", "-f", path])?;
    }
    Ok(())
}

/// With a token that names the node, as those of its pods do.
pub(crate) fn kubeconfig_of_node(cluster: &Cluster, parts: &Parts, node: &str) -> Result<PathBuf> {
    let object = cluster.kubectl(parts, &["get", "node", node, "-o", "json"])?;
    let object: Value = serde_json::from_str(&object)?;
    let bound = Bound {
        kind: "Node",
        name: node,
        uid: text(&object, "/metadata/uid"),
    };
    kubeconfig(cluster, parts, &format!("eviction-{node}"), Some(&bound))
}

/// The object that a token lives and dies with.
struct Bound<'a> {
    kind: &'a str,
    name: &'a str,
    uid: &'a str,
}

fn kubeconfig(
    cluster: &Cluster,
    parts: &Parts,
    file: &str,
    bound: Option<&Bound<'_>>,
) -> Result<PathBuf> {
    let mut ask = vec!["create", "token", NAME, "--namespace", NAMESPACE];
    if let Some(bound) = bound {
        ask.extend(["--bound-object-kind", bound.kind]);
        ask.extend(["--bound-object-name", bound.name]);
        ask.extend(["--bound-object-uid", bound.uid]);
    }
    let token = cluster.kubectl(parts, &ask)?;
    cluster.write_kubeconfig(file, token.trim())
}

impl Node {
    /// As the manifests' pod on this node.
    pub(crate) fn account_of_node(&self, node: &str) -> Result<PathBuf> {
        kubeconfig_of_node(&self.cluster, &self.parts, node)
    }

    /// With the token of a pod that runs under the account.
    pub(crate) fn account_of_pod(&self, name: &str) -> Result<PathBuf> {
        let pod = self.pod(NAMESPACE, name)?;
        let bound = Bound {
            kind: "Pod",
            name,
            uid: text(&pod, "/metadata/uid"),
        };
        kubeconfig(&self.cluster, &self.parts, "eviction-pod", Some(&bound))
    }

    /// With a token that names no node.
    pub(crate) fn account_of_nobody(&self) -> Result<PathBuf> {
        kubeconfig(&self.cluster, &self.parts, "eviction-nobody", None)
    }
}
