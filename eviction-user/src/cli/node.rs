//! `eviction node clean`: what is left on nodes of a DaemonSet that is gone.

use super::{Exit, Failure};
use crate::kube::{CleanError, Cleaned, ClusterError, Nodes, clean};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct NodeArgs {
    #[command(subcommand)]
    command: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Removes our conditions and taints (those named eviction.dev/...) from a node, and says which. Needs the rights to get (for
    /// all nodes: list) and patch nodes, and to patch nodes/status. While `eviction run` is there, it writes them again.
    Clean(CleanArgs),
}

#[derive(Debug, Args)]
struct CleanArgs {
    /// The node's name, as `kubectl get nodes` shows it.
    #[arg(long, value_name = "NAME", required_unless_present = "all_nodes")]
    node_name: Option<String>,
    /// Every node of the cluster.
    #[arg(long, conflicts_with = "node_name")]
    all_nodes: bool,
    /// How to reach the API server. [default: the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

pub(super) fn node(args: &NodeArgs) -> Result<Exit, Failure> {
    let NodeCommand::Clean(args) = &args.command;
    let nodes = match &args.node_name {
        Some(name) if name.is_empty() => {
            return Err(Failure::usage(
                "--node-name is empty: give the node's name as `kubectl get nodes` shows it",
            ));
        }
        Some(name) => Nodes::One(name.clone()),
        None => Nodes::All,
    };
    clean(args.kubeconfig.as_deref(), &nodes, |cleaned| {
        println!("{}", told(cleaned));
    })
    .map_err(|error| match &error {
        CleanError::Cluster(ClusterError::Kubeconfig { .. }) => {
            Failure::usage(&format!("--kubeconfig: {error}"))
        }
        CleanError::Cluster(ClusterError::ServiceAccount(_)) => Failure::usage(&error),
        CleanError::NoNode(_) => Failure::usage(&format!(
            "--node-name: {error}; `kubectl get nodes` shows their names"
        )),
        CleanError::Cluster(_) | CleanError::Failed(_) => Failure::runtime(&error),
    })?;
    Ok(Exit::Good)
}

fn told(cleaned: &Cleaned) -> String {
    let conditions = cleaned
        .conditions
        .iter()
        .map(|type_| format!("condition {type_}"));
    let taints = cleaned.taints.iter().map(|key| format!("taint {key}"));
    let removed: Vec<String> = conditions.chain(taints).collect();
    let node = &cleaned.node;
    if removed.is_empty() {
        format!("{node}: nothing of ours")
    } else {
        format!("{node}: removed {}", removed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_said_by_name() {
        let mut cleaned = Cleaned {
            node: "n1".to_owned(),
            conditions: vec!["eviction.dev/PIDPressure".to_owned()],
            taints: vec!["eviction.dev/pid-pressure".to_owned()],
        };
        assert_eq!(
            told(&cleaned),
            "n1: removed condition eviction.dev/PIDPressure, taint eviction.dev/pid-pressure"
        );
        cleaned.conditions.clear();
        cleaned.taints.clear();
        assert_eq!(told(&cleaned), "n1: nothing of ours");
    }
}
