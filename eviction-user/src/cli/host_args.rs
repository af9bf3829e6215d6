//! What `run` and `explain` are told of a host, and what they open of it.

use super::Failure;
use super::eviction_args::EvictionArgs;
use super::fs_args::FsArgs;
use super::guards;
use super::kube_args::{KubeArgs, Platform};
use super::kubelet_args;
use super::kubelet_watch::KubeletWatch;
use super::pairing;
use super::runtime_disks::RuntimeDisks;
use super::runtime_reclaim::Reclaim;
use crate::bpf::Wanted;
use crate::config::{Effective, FsPaths, HostConfig, HostFlags, PodsLayout, WarningKind};
use crate::host::{
    Children, FileSystems, GuardsAsked, LimitWatch, NodeInventory, Scan, ScanTarget, Targets,
    Watched, Workloads,
};
use crate::kube::{Cluster, ClusterConfig, HardPolicy, PodPlaces};
use crate::model::{FsLayout, Operator, Signal, Threshold};
use crate::policy::{EngineConfig, containerfs};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy};
use crate::sys::distant::Opening;
use crate::sys::filesystem::FileSystem;
use crate::telemetry::metrics::Check;
use clap::Args;
use std::path::PathBuf;

mod start_cluster;

#[derive(Debug, Args)]
pub(super) struct HostArgs {
    /// Whose workloads are watched.
    #[arg(long, value_enum)]
    platform: Platform,
    /// The cgroup whose child cgroups are the workloads: a path below /sys/fs/cgroup. Nothing outside
    /// it is ever evicted. For pods: the one that holds them all. [default: what the kubelet's cgroupRoot
    /// and cgroupDriver lead to, kubepods or kubepods.slice at the top where it has none]
    #[arg(long, value_name = "CGROUP")]
    root: Option<PathBuf>,
    /// A configuration file: our own kind, a KubeletConfiguration or a saved /configz. Files of FILE.d
    /// are laid over it; flags win over both.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    eviction: EvictionArgs,
    #[command(flatten)]
    paths: FsArgs,
    /// What is known of a workload: NAME:priority=N,request=QUANTITY,grace=SECONDS,dir=PATH,protect. The
    /// request defaults to memory.low, then to 0; grace is how long it needs to end by itself; dir is
    /// where its files lie: they are counted in the background.
    #[arg(long = "workload", value_name = "SPEC")]
    workloads: Vec<String>,
    /// Never evict a workload with more processes than this.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_processes: Option<u64>,
    #[command(flatten)]
    reclaim: ReclaimArgs,
    #[command(flatten)]
    kube: KubeArgs,
}

/// What frees disk space before anybody has to go.
#[derive(Debug, Args)]
struct ReclaimArgs {
    /// What frees disk space of the node before a workload is evicted for a disk signal; if it frees enough,
    /// nobody is. With --platform host: a shell command, with the signal's name in EVICTION_SIGNAL. With
    /// --platform kubernetes: `runtime` (the default with a disk threshold), the container runtime removes
    /// dead containers, then unused images, for 30 s at most; or `off`, that is left to the kubelet: for
    /// nodes that cannot pull an image again (offline, imagePullPolicy Never).
    #[arg(long, value_name = "COMMAND|runtime|off")]
    reclaim: Option<String>,
    /// How long the command may take, with --platform host; then it is killed with all that it started. [default: 60s]
    #[arg(long, value_name = "DURATION")]
    reclaim_timeout: Option<String>,
}

/// A host as the flags and files describe it, opened.
pub(super) struct Host {
    pub(super) config: HostConfig,
    pub(super) hierarchy: Hierarchy,
    pub(super) root: CgroupDir,
    pub(super) file_systems: FileSystems,
    /// Where pods are asked for; `None`: the workloads are plain cgroups.
    pub(super) cluster: Option<ClusterConfig>,
    /// Pods are held to limits of their own; with [`Self::cluster`].
    pub(super) storage_limits: bool,
    /// Where pods have their files; with [`Self::cluster`].
    pub(super) pod_places: Option<PodPlaces>,
    /// The kubelet, which may be started again; with [`Self::cluster`], where its process is to be seen.
    kubelet: Option<KubeletWatch>,
    /// What the container runtime says of its disks; with [`Self::cluster`], where a disk is watched.
    runtime: Option<RuntimeDisks>,
    /// What the container runtime removes before a pod goes; with [`Self::cluster`], where that is wanted.
    pub(super) reclaim: Option<Reclaim>,
    max_processes: Option<u64>,
}

/// What kubelet and runtime of a Kubernetes node have told.
struct Told {
    layout: PodsLayout,
    kubelet: Option<KubeletWatch>,
    runtime: Option<RuntimeDisks>,
}

impl HostArgs {
    /// Checks the settings, tells the warnings, and opens what is named.
    pub(super) fn open(&self) -> Result<Host, Failure> {
        let mut cluster = self.kube.check(self.platform)?;
        let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
        let (mut config, told) = self.config(&hierarchy)?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        if let Some(cluster) = &mut cluster {
            let is_soft = config.thresholds.iter().any(|t| !t.is_hard());
            cluster.asks = is_soft || cluster.hard != HardPolicy::Kill;
        }
        guards::check(&config.additions, &hierarchy)?;
        if let Some(cluster) = &mut cluster {
            cluster.honors_annotations = config.additions.honor_annotations;
        }
        let root = open_root(&mut config, &hierarchy, self.platform)?;
        let file_systems = open_file_systems(&config)?;
        let has_a_line = config
            .thresholds
            .iter()
            .any(|threshold| file_systems.of(threshold.signal).is_some());
        let watches_a_disk = has_a_line || self.kube.storage_limits;
        let nodefs = config.paths.nodefs.as_deref();
        let pod_places = told
            .as_ref()
            .map(|told| self.kube.places(nodefs, watches_a_disk, &told.layout))
            .transpose()?;
        let reclaim = told
            .as_ref()
            .filter(|_| config.runtime_reclaims)
            .map(|told| Reclaim::of(&self.kube.runtime, &told.layout, self.kube.node()));
        let (kubelet, runtime) = told.map_or((None, None), |told| (told.kubelet, told.runtime));
        check_containerfs(&config.thresholds, file_systems.layout())?;
        warn_unknown_workloads(&config, &root);
        Ok(Host {
            config,
            hierarchy,
            root,
            file_systems,
            cluster,
            storage_limits: self.kube.storage_limits,
            pod_places,
            kubelet,
            runtime,
            reclaim,
            max_processes: self.max_processes,
        })
    }

    fn config(&self, hierarchy: &Hierarchy) -> Result<(HostConfig, Option<Told>), Failure> {
        let flags = HostFlags {
            root: self.root.clone(),
            config: self.config.clone(),
            eviction: self.eviction.flags(),
            paths: FsPaths {
                nodefs: self.paths.nodefs.clone(),
                imagefs: self.paths.imagefs.clone(),
                containerfs: self.paths.containerfs.clone(),
            },
            workloads: self.workloads.clone(),
            storage_limits: self.kube.storage_limits,
            reclaim: self.reclaim.reclaim.clone(),
            reclaim_timeout: self.reclaim.reclaim_timeout.clone(),
        };
        match self.platform {
            Platform::Host => {
                let config = HostConfig::resolve(&flags).map_err(|e| Failure::usage(&e))?;
                Ok((config, None))
            }
            Platform::Kubernetes => {
                let (config, told) = self.config_for_pods(&flags, hierarchy)?;
                Ok((config, Some(told)))
            }
        }
    }

    fn config_for_pods(
        &self,
        flags: &HostFlags,
        hierarchy: &Hierarchy,
    ) -> Result<(HostConfig, Told), Failure> {
        let ours = Effective::load(self.config.as_deref(), &flags.eviction);
        let ours = ours.map_err(|e| Failure::usage(&e))?;
        let node = self.kube.node();
        let found = self
            .kube
            .kubelet
            .find(node, self.kube.kubeconfig.as_deref())?;
        let layout = PodsLayout::of(&ours, &found.settings);
        found.tell(&layout);
        if let Some(kubelets) = &found.settings.effective {
            pairing::warn(&ours, kubelets);
        }
        let root = kubelet_args::root(self.root.as_deref(), &layout, hierarchy)?;
        let watches_a_disk = flags.storage_limits || ours.watches_a_disk();
        let runtime = watches_a_disk.then(|| {
            let runtime = self.kube.runtime.runtime(&layout, node);
            RuntimeDisks::find(runtime, &flags.paths, self.kube.runtime_root.as_deref())
        });
        let kubelets = layout.root_dir.as_ref().map(|root| root.value.clone());
        let runtimes = runtime.as_ref().map(|runtime| runtime.paths.clone());
        let decided = FsPaths {
            nodefs: kubelets,
            ..runtimes.unwrap_or_default()
        };
        let mut config = HostConfig::resolve_for_pods(flags, &ours, root, &decided)
            .map_err(|e| Failure::usage(&e))?;
        if found.settings.effective.is_some() {
            // Its lines are known, and have been compared.
            let guessed = WarningKind::SharedWithTheKubelet;
            config.warnings.retain(|warning| warning.kind != guessed);
        }
        let given = self.settings_that_flags_win_over();
        let kubelet = KubeletWatch::of(&self.kube, &ours, &found, given);
        let told = Told {
            layout,
            kubelet,
            runtime,
        };
        Ok((config, told))
    }

    /// By the kubelet's names.
    fn settings_that_flags_win_over(&self) -> Vec<&'static str> {
        let settings = [
            ("cgroupRoot", self.root.is_some()),
            ("cgroupDriver", self.root.is_some()),
            ("--root-dir", self.paths.nodefs.is_some()),
        ];
        let given = settings.into_iter().filter(|(_, is_given)| *is_given);
        let given = given.map(|(setting, _)| setting);
        given
            .chain(self.kube.settings_that_flags_win_over())
            .collect()
    }
}

impl Host {
    /// What else `/readyz` asks: whether the kubelet has still the settings that we go by, and whether the container runtime says
    /// where its disks are. Both are asked again, by threads of their own, which begin here.
    pub(super) fn checks(&mut self) -> Result<Vec<Check>, Failure> {
        let FileSystems {
            nodefs, imagefs, ..
        } = &self.file_systems;
        // Images that are named nowhere lie with the node's files.
        let used = imagefs.as_ref().or(nodefs.as_ref()).map(|fs| fs.device);
        let kubelet = self.kubelet.take().map(KubeletWatch::check);
        let runtime = self.runtime.take().map(|runtime| runtime.check(used));
        let checks = kubelet.into_iter().chain(runtime);
        checks
            .collect::<Result<_, _>>()
            .map_err(|e| Failure::runtime(&e))
    }

    pub(super) fn watches(&self, signal: Signal) -> bool {
        watches(&self.config.thresholds, signal)
    }

    /// What the kernel side is to watch.
    pub(super) fn wanted(&self) -> Wanted {
        let mut wanted = Wanted {
            node_memory: self.watches(Signal::MemoryAvailable),
            group_memory: self
                .watches(Signal::AllocatableMemoryAvailable)
                .then_some(self.root.id()),
            pids: self.watches(Signal::PidAvailable),
            ..Wanted::default()
        };
        for (signal, fs) in self.devices() {
            wanted.add_device(signal, fs);
        }
        // What is used up there may be some pod's last.
        let limited = [Signal::NodeFsAvailable, Signal::ImageFsAvailable].into_iter();
        let limited = limited.filter(|signal| self.storage_limits && !self.watches(*signal));
        for signal in limited {
            if let Some(fs) = self.file_systems.of(signal) {
                wanted.add_device(signal, fs);
            }
        }
        wanted
    }

    /// The signals of file systems that are watched, each with its own.
    pub(super) fn devices(&self) -> Vec<(Signal, &FileSystem)> {
        let watched = Signal::ALL
            .into_iter()
            .filter(|signal| self.watches(*signal));
        watched
            .filter_map(|signal| Some((signal, self.file_systems.of(signal)?)))
            .collect()
    }

    /// The thresholds in force from the start on, as far as they are about anything that is watched. (The
    /// engine rewrites its own list with the first look.)
    pub(super) fn thresholds(&self) -> Vec<Threshold> {
        let mut thresholds = self.config.thresholds.clone();
        containerfs::rewrite(&mut thresholds, self.file_systems.layout());
        thresholds.retain(|t| t.operator != Operator::Never && self.watches(t.signal));
        thresholds
    }

    /// The directories that hold all that a workload has on the watched file systems; `None`: nobody has one.
    pub(super) fn scan_targets(&self, cluster: Option<&Cluster>) -> Option<Targets> {
        if self.devices().is_empty() {
            return None;
        }
        if let (Some(cluster), Some(places)) = (cluster, &self.pod_places) {
            return Some(cluster.scan_targets(places.clone()));
        }
        let workloads = self.config.workloads.iter();
        let targets: Vec<_> = workloads
            .filter_map(|workload| {
                Some(ScanTarget {
                    workload: workload.name.clone(),
                    dir: workload.dir.clone()?,
                })
            })
            .collect();
        (!targets.is_empty()).then(|| Box::new(move || targets.clone()) as Targets)
    }

    /// `cluster`: of pods.
    pub(super) fn inventory(
        &self,
        scan: Scan,
        limits: Option<LimitWatch>,
        guards: GuardsAsked,
        cluster: Option<&Cluster>,
    ) -> Result<NodeInventory, Failure> {
        let watched = Watched {
            file_systems: self.file_systems.clone(),
            scan,
            limits,
            pids: self.watches(Signal::PidAvailable),
            most_processes: self.max_processes,
            guards,
        };
        let (root, hierarchy) = (self.root.clone(), self.hierarchy.clone());
        let workloads: Box<dyn Workloads + Send> = match cluster {
            Some(cluster) => Box::new(cluster.workloads(root, hierarchy)),
            None => Box::new(Children::of(root, hierarchy, self.config.workloads.clone())),
        };
        NodeInventory::open(
            self.root.clone(),
            self.hierarchy.clone(),
            workloads,
            watched,
        )
        .map_err(|e| Failure::runtime(&e))
    }

    /// The kubelet's policy and what the configuration adds to it.
    pub(super) fn engine_config(&self) -> EngineConfig {
        let mut config = EngineConfig::with_thresholds(self.config.thresholds.clone());
        config.settings.transition_period = self.config.transition_period;
        config.settings.max_pod_grace_secs = self.config.max_pod_grace_secs;
        config.settings.local_storage_isolation = self.storage_limits;
        config.settings.memory_figure = self.config.memory_figure;
        config.additions = self.config.additions.clone();
        config
    }
}

fn watches(thresholds: &[Threshold], signal: Signal) -> bool {
    thresholds
        .iter()
        .any(|threshold| threshold.signal == signal)
}

/// A limit for all pods together is watched where there is one; for a host it is an error to ask for it in vain.
fn open_root(
    config: &mut HostConfig,
    hierarchy: &Hierarchy,
    platform: Platform,
) -> Result<CgroupDir, Failure> {
    let path = hierarchy
        .resolve(&config.root)
        .map_err(|e| Failure::usage(&format!("--root: {e}")))?;
    let root = CgroupDir::open(&path).map_err(|e| {
        Failure::usage(&format!(
            "--root: {e}; name an existing cgroup, such as {}",
            hierarchy.mount.display()
        ))
    })?;
    if watches(&config.thresholds, Signal::AllocatableMemoryAvailable) {
        let limit = GroupMemoryReader::open(&root, hierarchy.version)
            .and_then(|reader| reader.read())
            .map_err(|e| {
                Failure::usage(&format!(
                    "--root: allocatableMemory.available needs the memory controller there: {e}"
                ))
            })?
            .limit;
        if limit.is_none() && matches!(platform, Platform::Kubernetes) {
            let thresholds = &mut config.thresholds;
            thresholds.retain(|t| t.signal != Signal::AllocatableMemoryAvailable);
        } else if limit.is_none() {
            return Err(Failure::usage(&format!(
                "--root: allocatableMemory.available needs a memory limit on {}; set one, or use memory.available for the whole node",
                path.display()
            )));
        }
    }
    Ok(root)
}

fn open_file_systems(config: &HostConfig) -> Result<FileSystems, Failure> {
    let open = |flag: &str, path: &Option<PathBuf>| -> Result<_, Failure> {
        let Some(path) = path else { return Ok(None) };
        let usage = |text: String| Failure::usage(&format!("{flag}: {text}"));
        let fs = Opening::start(path)
            .wait()
            .map_err(|e| usage(e.to_string()))?;
        let signal = format!("{}.inodesFree", flag.trim_start_matches('-'));
        let counts_inodes = config.thresholds.iter().any(|t| t.signal.name() == signal);
        if counts_inodes && fs.read().map_err(|e| usage(e.to_string()))?.inodes == 0 {
            return Err(usage(format!(
                "{} is on a file system that makes inodes as needed: {signal} has no meaning there",
                path.display()
            )));
        }
        Ok(Some(fs))
    };
    let [nodefs, imagefs, containerfs] = config.paths.named().map(|(flag, path)| open(flag, path));
    Ok(FileSystems {
        nodefs: nodefs?,
        imagefs: imagefs?,
        containerfs: containerfs?,
    })
}

/// Says what the kubelet's rule makes of containerfs thresholds, and refuses what would never be met.
fn check_containerfs(thresholds: &[Threshold], layout: FsLayout) -> Result<(), Failure> {
    let mut rewritten = thresholds.to_vec();
    containerfs::rewrite(&mut rewritten, layout);
    let source = if layout.dedicated_imagefs && !layout.split_containerfs {
        "imagefs"
    } else {
        "nodefs"
    };
    for (given, becomes) in thresholds.iter().zip(&rewritten) {
        if given == becomes {
            continue;
        }
        let signal = given.signal;
        let kind = if given.is_hard() { "hard" } else { "soft" };
        if becomes.operator == Operator::Never {
            return Err(Failure::usage(&format!(
                "--containerfs: the {kind} threshold {signal} would never be met: as in the kubelet it takes its limit from {source} on this layout, which has none; set the one for {source}, or name a path on a file system of its own and leave --imagefs out"
            )));
        }
        tracing::warn!(
            "{signal}: the {kind} limit is taken from {source}, as the kubelet does on this layout of file systems"
        );
    }
    Ok(())
}

fn warn_unknown_workloads(config: &HostConfig, root: &CgroupDir) {
    for workload in &config.workloads {
        if root.child(&workload.name).is_none() {
            tracing::warn!(
                workload = workload.name,
                root = %root.path().display(),
                "no such child cgroup now; the settings apply when it appears"
            );
        }
    }
}
