//! What `run` and `explain` are told of the cluster.

use super::Failure;
use crate::kube::ClusterConfig;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum Platform {
    /// Child cgroups of --root, without Kubernetes.
    Host,
    /// The pods of this node, beside its kubelet.
    Kubernetes,
}

#[derive(Debug, Args)]
pub(super) struct KubeArgs {
    /// This node's name in the API, with --platform kubernetes. A DaemonSet has it from the downward API
    /// (fieldRef spec.nodeName).
    #[arg(long, value_name = "NAME", env = "NODE_NAME", hide_env_values = true)]
    node_name: Option<String>,
    /// How to reach the API server, with --platform kubernetes. [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

impl KubeArgs {
    pub(super) fn check(&self, platform: Platform) -> Result<Option<ClusterConfig>, Failure> {
        match platform {
            // A node's name may be in the environment for another reason.
            Platform::Host if self.kubeconfig.is_some() => Err(Failure::usage(
                "--kubeconfig has no effect with --platform host: leave it out, or give --platform kubernetes",
            )),
            Platform::Host => Ok(None),
            Platform::Kubernetes => {
                let given = self.node_name.as_ref().filter(|name| !name.is_empty());
                let node = given.ok_or_else(|| {
                    Failure::usage(
                        "--node-name is missing: give this node's name as `kubectl get nodes` shows it; in a DaemonSet set NODE_NAME from the downward API (fieldRef spec.nodeName)",
                    )
                })?;
                Ok(Some(ClusterConfig {
                    node: node.clone(),
                    kubeconfig: self.kubeconfig.clone(),
                    evicts: false,
                }))
            }
        }
    }
}
