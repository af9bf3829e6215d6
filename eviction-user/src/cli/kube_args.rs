//! What `run` and `explain` are told of the cluster.

use super::Failure;
use super::kubelet_args::{self, KubeletArgs};
use super::runtime_args::RuntimeArgs;
use crate::config::PodsLayout;
use crate::kube::{AfterEviction, ClusterConfig, HardPolicy, PodPlaces, PressureUse};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};

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
    pub(super) kubeconfig: Option<PathBuf>,
    /// Where the pods' logs lie, with --platform kubernetes and a disk threshold or --storage-limits: they count
    /// as the pods' use.
    /// [default: the kubelet's podLogsDir]
    #[arg(long, value_name = "DIR")]
    pod_logs: Option<PathBuf>,
    /// Hold pods to their own limits on local storage (sizeLimit of an emptyDir, limits of ephemeral-storage), with --platform
    /// kubernetes and --nodefs: who exceeds one goes as soon as it is seen, where the kubelet takes up to minutes.
    #[arg(long)]
    pub(super) storage_limits: bool,
    /// What becomes of an evicted pod's object, with --platform kubernetes. The kubelet keeps the writable
    /// layers of its containers as long as it is there. [default: keep]
    #[arg(long, value_enum, value_name = "WHAT")]
    after_eviction: Option<After>,
    /// How hard thresholds evict pods (and --storage-limits does), with --platform kubernetes. Soft ones ask the Eviction API, always.
    /// [default: kill]
    #[arg(long, value_enum, value_name = "HOW")]
    hard_policy: Option<Hard>,
    /// The container runtime's directory, with --platform kubernetes and a disk threshold or --storage-limits:
    /// imagefs is its file system where the runtime does not answer.
    #[arg(long, value_name = "DIR")]
    pub(super) runtime_root: Option<PathBuf>,
    /// Write conditions of our own into the node's status (eviction.dev/MemoryPressure, DiskPressure, PIDPressure), with --platform
    /// kubernetes: set at once, taken back when --eviction-pressure-transition-period has passed without cause. [default: off]
    #[arg(long, value_enum, value_name = "on|off")]
    node_conditions: Option<Switch>,
    /// Taint the node while such a condition holds, with --platform kubernetes: eviction.dev/memory-pressure, disk-pressure,
    /// pid-pressure, each NoSchedule. [default: off]
    #[arg(long, value_enum, value_name = "on|off")]
    node_taint: Option<Switch>,
    /// Refuse new pods while such a condition holds, with --platform kubernetes: those that the kubelet refuses at its own. A restart
    /// knows of the condition only with --node-conditions on. [default: off]
    #[arg(long, value_enum, value_name = "on|off")]
    admission: Option<Switch>,
    #[command(flatten)]
    pub(super) kubelet: KubeletArgs,
    #[command(flatten)]
    pub(super) runtime: RuntimeArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum After {
    /// It stays and tells what has happened, as after an eviction by the kubelet.
    Keep,
    /// It is deleted once its containers have ended: for disks that writable layers fill.
    Delete,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Hard {
    /// Killed at once, whatever a PodDisruptionBudget says, as the kubelet does.
    Kill,
    /// By the Eviction API with a second of grace. Whom a budget protects stays, and the next one is asked for; as long as the API server
    /// does not answer nobody goes.
    Api,
    /// Killed as soon as the Eviction API has granted it. Whom a budget protects stays, and the next one is asked for; without an
    /// answer within 2 s it is killed all the same, which is told and counted.
    #[value(name = "kill+api")]
    KillApi,
}

const KUBELET: &str = "/var/lib/kubelet";
const POD_LOGS: &str = "/var/log/pods";

impl KubeArgs {
    /// `nodefs`: as it is watched. `watches_a_disk`: a threshold is about one, or limits of pods are.
    pub(super) fn places(
        &self,
        nodefs: Option<&Path>,
        watches_a_disk: bool,
        layout: &PodsLayout,
    ) -> Result<PodPlaces, Failure> {
        let idle = [
            ("--pod-logs", self.pod_logs.is_some()),
            ("--runtime-root", self.runtime_root.is_some()),
            ("--container-runtime-endpoint", self.runtime.is_given()),
        ];
        let mut idle = idle.into_iter().filter(|(_, is_given)| *is_given);
        if let Some((flag, _)) = idle.next().filter(|_| !watches_a_disk) {
            return Err(Failure::usage(&format!(
                "{flag} is given, but no threshold is about a disk: add one to --eviction-hard, as in 'nodefs.available<5%', with --nodefs, or give --storage-limits",
            )));
        }
        if let Some(kubelet) = nodefs.filter(|path| !path.join("pods").is_dir()) {
            return Err(Failure::usage(&format!(
                "--nodefs: {} has no directory `pods`: name the kubelet's root directory (its --root-dir, usually {KUBELET})",
                kubelet.display()
            )));
        }
        if let Some(logs) = self.pod_logs.as_deref().filter(|path| !path.is_dir()) {
            return Err(Failure::usage(&format!(
                "--pod-logs: {} is not a directory: name the kubelet's podLogsDir (usually {POD_LOGS})",
                logs.display()
            )));
        }
        let logs = kubelet_args::directory(
            "--pod-logs",
            self.pod_logs.as_deref(),
            Some(&layout.pod_logs),
        );
        let places = PodPlaces {
            kubelet: kubelet_args::directory("--nodefs", nodefs, layout.root_dir.as_ref())
                .unwrap_or_else(|| KUBELET.into()),
            logs: logs.unwrap_or_else(|| layout.pod_logs.value.clone()),
        };
        if watches_a_disk && !places.logs.is_dir() {
            tracing::warn!(
                "the pods' logs do not count as their use: {} ({}) is no directory here; mount it, or name it by --pod-logs",
                places.logs.display(),
                layout.pod_logs.origin
            );
        }
        Ok(places)
    }

    /// By the kubelet's names.
    pub(super) fn settings_that_flags_win_over(&self) -> impl Iterator<Item = &'static str> {
        let settings = [
            ("podLogsDir", self.pod_logs.is_some()),
            ("the runtime's endpoint", self.runtime.is_given()),
        ];
        let given = settings.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(setting, _)| setting)
    }

    /// The node's name, if it is given.
    pub(super) fn node(&self) -> Option<&str> {
        self.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// A flag that is given and has no meaning on a host. (A node's name may be in the environment for another reason.)
    fn of_pods_only(&self) -> Option<&'static str> {
        let flags = [
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--pod-logs", self.pod_logs.is_some()),
            ("--storage-limits", self.storage_limits),
            ("--after-eviction", self.after_eviction.is_some()),
            ("--hard-policy", self.hard_policy.is_some()),
            ("--runtime-root", self.runtime_root.is_some()),
            ("--node-conditions", self.node_conditions.is_some()),
            ("--node-taint", self.node_taint.is_some()),
            ("--admission", self.admission.is_some()),
            ("--kubelet-config", self.kubelet.is_given()),
            ("--container-runtime-endpoint", self.runtime.is_given()),
        ];
        let given = flags.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(flag, _)| flag)
    }

    pub(super) fn check(&self, platform: Platform) -> Result<Option<ClusterConfig>, Failure> {
        match platform {
            Platform::Host => match self.of_pods_only() {
                Some(flag) => Err(Failure::usage(&format!(
                    "{flag} has no effect with --platform host: leave it out, or give --platform kubernetes"
                ))),
                None => Ok(None),
            },
            Platform::Kubernetes => {
                let node = self.node().ok_or_else(|| {
                    Failure::usage(
                        "--node-name is missing: give this node's name as `kubectl get nodes` shows it; in a DaemonSet set NODE_NAME from the downward API (fieldRef spec.nodeName)",
                    )
                })?;
                Ok(Some(ClusterConfig {
                    node: node.to_owned(),
                    kubeconfig: self.kubeconfig.clone(),
                    evicts: false,
                    honors_annotations: false,
                    after: match self.after_eviction {
                        None | Some(After::Keep) => AfterEviction::Keep,
                        Some(After::Delete) => AfterEviction::Delete,
                    },
                    hard: match self.hard_policy {
                        None | Some(Hard::Kill) => HardPolicy::Kill,
                        Some(Hard::Api) => HardPolicy::Api,
                        Some(Hard::KillApi) => HardPolicy::KillApi,
                    },
                    asks: false,
                    pressure: PressureUse {
                        conditions: self.node_conditions == Some(Switch::On),
                        taint: self.node_taint == Some(Switch::On),
                        admission: self.admission == Some(Switch::On),
                    },
                }))
            }
        }
    }
}
