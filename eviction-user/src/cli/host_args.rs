//! What `run` and `explain` are told of a host, and what they open of it.

use super::Failure;
use super::eviction_args::EvictionArgs;
use crate::config::{HostConfig, HostFlags};
use crate::host::{DirectoryScan, HostInventory};
use crate::model::{Signal, Threshold};
use crate::policy::EngineConfig;
use crate::sys::cgroup::{CgroupDir, DyingCgroups, GroupMemoryReader, Hierarchy};
use crate::sys::filesystem::FileSystem;
use crate::sys::pressure::MemoryStall;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct HostArgs {
    /// Whose workloads are watched.
    #[arg(long, value_enum)]
    platform: Platform,
    /// The cgroup whose child cgroups are the workloads: a path below /sys/fs/cgroup. Nothing outside
    /// it is ever evicted.
    #[arg(long, value_name = "CGROUP")]
    root: Option<PathBuf>,
    /// A configuration file: our own kind, a KubeletConfiguration or a saved /configz. Files of FILE.d
    /// are laid over it; flags win over both.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    eviction: EvictionArgs,
    /// A path on the file system that nodefs.inodesFree is about.
    #[arg(long, value_name = "PATH")]
    nodefs: Option<PathBuf>,
    /// What is known of a workload: NAME:priority=N,request=QUANTITY,dir=PATH,protect. The request
    /// defaults to memory.low, then to 0; dir is where its files lie, for inode use without eBPF.
    #[arg(long = "workload", value_name = "SPEC")]
    workloads: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Platform {
    /// Child cgroups of --root, without Kubernetes.
    Host,
}

/// A host as the flags and files describe it, opened.
pub(super) struct Host {
    pub(super) config: HostConfig,
    pub(super) hierarchy: Hierarchy,
    pub(super) root: CgroupDir,
    pub(super) nodefs: Option<FileSystem>,
}

impl HostArgs {
    /// Checks the settings, tells the warnings, and opens what is named.
    pub(super) fn open(&self) -> Result<Host, Failure> {
        let Platform::Host = self.platform;
        let flags = HostFlags {
            root: self.root.clone(),
            config: self.config.clone(),
            eviction: self.eviction.flags(),
            nodefs: self.nodefs.clone(),
            workloads: self.workloads.clone(),
        };
        let config = HostConfig::resolve(&flags).map_err(|e| Failure::usage(&e))?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
        check_guards(&config, &hierarchy)?;
        let root = open_root(&config, &hierarchy)?;
        let nodefs = open_nodefs(&config)?;
        warn_unknown_workloads(&config, &root);
        Ok(Host {
            config,
            hierarchy,
            root,
            nodefs,
        })
    }
}

impl Host {
    pub(super) fn watches(&self, signal: Signal) -> bool {
        watches(&self.config.thresholds, signal)
    }

    /// The signals of file systems that are to be armed, each with its device.
    pub(super) fn devices(&self) -> Vec<(Signal, u64)> {
        let nodefs = self.nodefs.iter();
        nodefs
            .map(|fs| (Signal::NodeFsInodesFree, fs.device))
            .collect()
    }

    pub(super) fn inventory(&self) -> Result<HostInventory, Failure> {
        HostInventory::open(
            self.root.clone(),
            self.hierarchy.clone(),
            self.config.workloads.clone(),
            self.nodefs.clone(),
            open_scan(&self.config)?,
        )
        .map_err(|e| Failure::runtime(&e))
    }

    /// The kubelet's policy and what the configuration adds to it; a host has no pods' own storage limits.
    pub(super) fn engine_config(&self) -> EngineConfig {
        let mut config = EngineConfig::with_thresholds(self.config.thresholds.clone());
        config.settings.transition_period = self.config.transition_period;
        config.settings.max_pod_grace_secs = self.config.max_pod_grace_secs;
        config.settings.local_storage_isolation = false;
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

/// A guard that cannot see is no guard.
fn check_guards(config: &HostConfig, hierarchy: &Hierarchy) -> Result<(), Failure> {
    if config.additions.min_stall_percent.is_some() {
        MemoryStall::open().map_err(|e| {
            Failure::usage(&format!(
                "minimumMemoryStallPercent: {e}; boot with psi=1 (the kernel needs CONFIG_PSI), or remove the setting"
            ))
        })?;
    }
    if config.additions.max_dying_cgroups.is_some() {
        let dying = DyingCgroups::open(hierarchy)
            .map_err(|e| Failure::usage(&format!("maximumDyingCgroups: {e}")))?;
        if dying.is_none() {
            return Err(Failure::usage(
                &"maximumDyingCgroups: cgroup v1 does not tell how many removed cgroups still hold memory; remove the setting",
            ));
        }
    }
    Ok(())
}

fn open_root(config: &HostConfig, hierarchy: &Hierarchy) -> Result<CgroupDir, Failure> {
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
        if limit.is_none() {
            return Err(Failure::usage(&format!(
                "--root: allocatableMemory.available needs a memory limit on {}; set one, or use memory.available for the whole node",
                path.display()
            )));
        }
    }
    Ok(root)
}

fn open_nodefs(config: &HostConfig) -> Result<Option<FileSystem>, Failure> {
    let Some(path) = &config.nodefs else {
        return Ok(None);
    };
    let usage = |text: String| Failure::usage(&format!("--nodefs: {text}"));
    let fs = FileSystem::at(path).map_err(|e| usage(e.to_string()))?;
    if fs.read().map_err(|e| usage(e.to_string()))?.inodes == 0 {
        return Err(usage(format!(
            "{} is on a file system that makes inodes as needed: nodefs.inodesFree has no meaning there",
            path.display()
        )));
    }
    Ok(Some(fs))
}

fn open_scan(config: &HostConfig) -> Result<Option<DirectoryScan>, Failure> {
    let named = config
        .workloads
        .iter()
        .filter_map(|w| Some((w.name.clone(), w.dir.clone()?)));
    let directories: Vec<_> = named.collect();
    if directories.is_empty() || config.nodefs.is_none() {
        return Ok(None);
    }
    DirectoryScan::start(directories)
        .map(Some)
        .map_err(|e| Failure::runtime(&e))
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
