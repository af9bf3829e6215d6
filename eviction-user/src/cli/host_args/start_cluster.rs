//! From what was given to the connection with the API server.

use super::super::Failure;
use super::Host;
use crate::kube::{Cluster, ClusterError, Pressure, PressureUse};
use crate::model::{Condition, Pod};
use crate::policy::admission::{Admission, admit};
use crate::policy::conditions::of_signals;
use std::path::Path;

impl Host {
    /// The connection with the API server. `state`: where unfinished records are kept.
    pub(in crate::cli) fn start_cluster(
        &self,
        state: Option<&Path>,
    ) -> Result<Option<Cluster>, Failure> {
        let Some(config) = self.cluster.clone() else {
            return Ok(None);
        };
        let asked = config.evicts && config.pressure != PressureUse::default();
        let pressure = asked.then(|| Pressure {
            how: config.pressure,
            watched: of_signals(self.thresholds().iter().map(|threshold| threshold.signal)),
            refuses: refused,
            period: self.config.transition_period,
            root: self.root.clone(),
            hierarchy: self.hierarchy.clone(),
        });
        Cluster::start(config, state, pressure)
            .map(Some)
            .map_err(|error| match &error {
                ClusterError::Kubeconfig { .. } => {
                    Failure::usage(&format!("--kubeconfig: {error}"))
                }
                ClusterError::ServiceAccount(_) => Failure::usage(&error),
                ClusterError::Client(_) | ClusterError::Io(_) => Failure::runtime(&error),
            })
    }
}

fn refused(pod: &Pod, conditions: &[Condition]) -> Option<String> {
    match admit(pod, conditions) {
        Admission::Admit => None,
        Admission::Reject { message, .. } => Some(message),
    }
}
