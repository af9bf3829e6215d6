//! Removes what a DaemonSet that is gone has left on nodes.

use super::object::{self, Ours};
use super::writer::{answered, set_taints};
use crate::kube::cluster::{self, ClusterError};
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use std::collections::BTreeSet;
use std::path::Path;

/// Which of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nodes {
    One(String),
    All,
}

/// What was removed from a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    pub node: String,
    pub conditions: Vec<String>,
    pub taints: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("there is no node {0}")]
    NoNode(String),
    #[error("{0}")]
    Failed(String),
}

/// `told`: of each node as soon as it is clean.
pub fn clean(
    kubeconfig: Option<&Path>,
    nodes: &Nodes,
    mut told: impl FnMut(&Cleaned),
) -> Result<(), CleanError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ClusterError::from)?;
    runtime.block_on(async {
        let (client, _) = cluster::connect(kubeconfig).await?;
        let api: Api<Node> = Api::all(client.clone());
        let found = match nodes {
            Nodes::One(name) => {
                let found = answered(api.get_opt(name))
                    .await
                    .map_err(CleanError::Failed)?;
                vec![found.ok_or_else(|| CleanError::NoNode(name.clone()))?]
            }
            Nodes::All => {
                let all = ListParams::default();
                answered(api.list(&all))
                    .await
                    .map_err(CleanError::Failed)?
                    .items
            }
        };
        for node in found {
            let name = node.metadata.name.clone().unwrap_or_default();
            let cleaned = one(&client, &name, Ours::of(&node)).await;
            told(&cleaned.map_err(|error| CleanError::Failed(format!("{name}: {error}")))?);
        }
        Ok(())
    })
}

async fn one(client: &Client, name: &str, ours: Ours) -> Result<Cleaned, String> {
    let conditions: Vec<String> = ours.conditions.into_keys().collect();
    if !conditions.is_empty() {
        let api: Api<Node> = Api::all(client.clone());
        let removed: Vec<_> = conditions
            .iter()
            .map(|type_| object::removed(type_))
            .collect();
        let patch = Patch::Strategic(object::status_patch(&removed));
        let parameters = PatchParams::default();
        answered(api.patch_status(name, &parameters, &patch)).await?;
    }
    if !ours.taints.is_empty() {
        set_taints(client, name, &BTreeSet::new()).await?;
    }
    Ok(Cleaned {
        node: name.to_owned(),
        conditions,
        taints: ours.taints.into_iter().collect(),
    })
}
