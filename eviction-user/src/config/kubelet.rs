//! What this node's kubelet has decided: where its pods are, and when it evicts. Read from its file and its command line; what we
//! are told ourselves wins.

use super::effective::{Effective, Row};
use super::error::{ConfigError, DocumentFault};
use super::files::{self, Loaded};
use super::flags::EvictionFlags;
use super::format::Format;
use super::layer::Layer;
use super::origin::{Origin, Sourced};
use crate::kube::{KubeletFlags, RunningKubelet};
use crate::model::Span;
use std::path::{Path, PathBuf};

/// Unless it is told otherwise (`--root-dir`).
const ROOT_DIR: &str = "/var/lib/kubelet";

#[derive(Debug, Default)]
pub struct KubeletSettings {
    /// `None`: not known here.
    pub effective: Option<Effective>,
    /// `None`: no kubelet is to be seen; only its command line has it.
    pub root_dir: Option<Sourced<PathBuf>>,
}

impl KubeletSettings {
    /// Of a file that somebody has named. `running`: what its command line says wins, as it does for the kubelet itself.
    pub fn of_file(file: &Path, running: Option<&RunningKubelet>) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        let Loaded { format, mut layer } = files::load(file, &mut warnings)?;
        if !format.is_kubelets() {
            let origin = Origin::File {
                path: file.into(),
                line: 1,
            };
            let fault = DocumentFault::NotTheKubelets(format.name());
            return Err(ConfigError::Document { origin, fault });
        }
        // What its /configz tells has them already.
        if let Some(running) = running.filter(|_| format == Format::Kubelet) {
            lay_over(&running.flags, &mut layer)?;
        }
        Ok(Self {
            effective: Some(Effective::of(Some(format), layer, warnings)?),
            root_dir: running.map(|running| root_dir(&running.flags)),
        })
    }

    /// Of the running kubelet, with the files that it was given; of these nothing is known where they are of no use (`Err`).
    pub fn of_running(running: &RunningKubelet) -> (Self, Result<(), ConfigError>) {
        let (effective, known) = match read(running) {
            Ok(effective) => (Some(effective), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let root_dir = Some(root_dir(&running.flags));
        let settings = Self {
            effective,
            root_dir,
        };
        (settings, known)
    }

    /// By the running kubelet's own word: an answer of its `/configz`.
    pub fn of_configz(running: &RunningKubelet, answer: &str) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        let Loaded { format, layer } = files::of_configz(answer, &mut warnings)?;
        if format != Format::Configz {
            let fault = DocumentFault::NotTheKubelets(format.name());
            let origin = Origin::Configz;
            return Err(ConfigError::Document { origin, fault });
        }
        Ok(Self {
            effective: Some(Effective::of(Some(format), layer, warnings)?),
            root_dir: Some(root_dir(&running.flags)),
        })
    }

    /// All that is known, each with where it comes from.
    pub fn rows(&self) -> Vec<Row> {
        let root = self.root_dir.iter().map(|root| Row {
            key: "--root-dir".to_owned(),
            value: root.value.display().to_string(),
            source: root.origin.to_string(),
        });
        let effective = self.effective.iter().flat_map(Effective::rows);
        // What no kubelet has.
        let effective = effective.filter(|row| row.key != super::keys::MONITORING_INTERVAL);
        root.chain(effective).collect()
    }
}

fn read(running: &RunningKubelet) -> Result<Effective, ConfigError> {
    let mut warnings = Vec::new();
    let loaded = files::of_kubelet(running, &mut warnings)?;
    let (format, mut layer) = match loaded {
        Some(Loaded { format, layer }) => (Some(format), layer),
        None => (None, Layer::default()),
    };
    lay_over(&running.flags, &mut layer)?;
    Effective::of(format, layer, warnings)
}

fn root_dir(flags: &KubeletFlags) -> Sourced<PathBuf> {
    match &flags.root_dir {
        Some(path) => Sourced {
            value: path.clone(),
            origin: Origin::KubeletFlag("--root-dir"),
        },
        None => Sourced::default_of(ROOT_DIR.into()),
    }
}

fn lay_over(flags: &KubeletFlags, layer: &mut Layer) -> Result<(), ConfigError> {
    let text = |target: &mut Option<Sourced<String>>, given: &Option<String>, name| {
        if let Some(value) = given.clone() {
            let origin = Origin::KubeletFlag(name);
            *target = Some(Sourced { value, origin });
        }
    };
    text(&mut layer.cgroup_root, &flags.cgroup_root, "--cgroup-root");
    text(
        &mut layer.cgroup_driver,
        &flags.cgroup_driver,
        "--cgroup-driver",
    );
    text(
        &mut layer.runtime_endpoint,
        &flags.runtime_endpoint,
        "--container-runtime-endpoint",
    );
    text(
        &mut layer.image_endpoint,
        &flags.image_endpoint,
        "--image-service-endpoint",
    );
    if let Some(list) = &flags.enforce {
        let options = list.split(',').filter(|option| !option.is_empty());
        layer.enforce = Some(Sourced {
            value: options.map(str::to_owned).collect(),
            origin: Origin::KubeletFlag("--enforce-node-allocatable"),
        });
    }
    let eviction = EvictionFlags {
        hard: flags.hard.clone(),
        soft: flags.soft.clone(),
        soft_grace: flags.soft_grace.clone(),
        min_reclaim: flags.min_reclaim.clone(),
        transition_period: flags.transition_period.clone(),
        max_pod_grace: flags.max_pod_grace.clone(),
        monitoring_interval: None,
    };
    eviction.lay_over(layer, Origin::KubeletFlag)
}

/// Where pods are on this node, by whoever's word: a file of ours, else the kubelet, else its defaults.
#[derive(Debug, Clone)]
pub struct PodsLayout {
    pub cgroup_root: Sourced<String>,
    pub cgroup_driver: Sourced<String>,
    pub pod_logs: Sourced<PathBuf>,
    /// Of the runtime: where it is asked about images.
    pub runtime: Sourced<String>,
    /// Of the runtime: where it is asked about containers.
    pub containers: Sourced<String>,
    /// Younger images are not removed.
    pub image_min_age: Sourced<Span>,
    /// `None`: nobody says so.
    pub root_dir: Option<Sourced<PathBuf>>,
}

impl PodsLayout {
    /// `ours`: of `--config`.
    pub fn of(ours: &Effective, kubelet: &KubeletSettings) -> Self {
        let kubelets = kubelet.effective.as_ref();
        let said = |setting| said(ours, kubelets, setting);
        let image_min_age = self::said(ours, kubelets, |of| &of.image_min_age);
        let logs = said(|of| &of.pod_logs);
        let images = said(|of| &of.image_endpoint);
        let is_apart = !images.value.is_empty();
        let containers = said(|of| &of.runtime_endpoint);
        Self {
            cgroup_root: said(|of| &of.cgroup_root),
            cgroup_driver: said(|of| &of.cgroup_driver),
            pod_logs: Sourced {
                value: logs.value.into(),
                origin: logs.origin,
            },
            runtime: if is_apart { images } else { containers.clone() },
            containers,
            image_min_age,
            root_dir: kubelet.root_dir.clone(),
        }
    }
}

/// Ours where it is set, else the kubelet's.
fn said<T: Clone>(
    ours: &Effective,
    kubelets: Option<&Effective>,
    setting: fn(&Effective) -> &Sourced<T>,
) -> Sourced<T> {
    let ours = setting(ours);
    let kubelets = kubelets.map(setting);
    let said = kubelets.filter(|_| ours.origin.is_default());
    said.unwrap_or(ours).clone()
}
