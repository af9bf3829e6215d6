//! The settings of host mode.

use super::check::about;
use super::effective::Effective;
use super::error::ConfigError;
use super::flags::EvictionFlags;
use super::format::Format;
use super::fs_paths::{self, FsPaths};
use super::origin::Origin;
use super::reclaim::{self, ReclaimError};
use super::warning::{Warning, WarningKind};
use crate::host::{ReclaimCommand, WorkloadSpec, WorkloadSpecError};
use crate::model::{Span, Threshold};
use crate::policy::additions::Additions;
use crate::policy::additions::memory_figure::MemoryFigure;
use crate::policy::thresholds::parse::Source;
use std::path::PathBuf;
use std::time::Duration;

/// As given on the command line.
#[derive(Debug, Clone, Default)]
pub struct HostFlags {
    pub root: Option<PathBuf>,
    /// A configuration file, of any kind that is understood.
    pub config: Option<PathBuf>,
    pub eviction: EvictionFlags,
    pub paths: FsPaths,
    pub workloads: Vec<String>,
    /// Pods are held to their own limits on local storage.
    pub storage_limits: bool,
    pub reclaim: Option<String>,
    pub reclaim_timeout: Option<String>,
}

/// As checked.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The cgroup whose children are the workloads.
    pub root: PathBuf,
    pub thresholds: Vec<Threshold>,
    /// Set if and only if a threshold needs them.
    pub paths: FsPaths,
    pub workloads: Vec<WorkloadSpec>,
    pub reclaim: Option<ReclaimCommand>,
    /// Before a pod goes for a disk, the container runtime removes what nobody needs.
    pub runtime_reclaims: bool,
    pub interval: Duration,
    pub transition_period: Span,
    pub max_pod_grace_secs: i64,
    pub memory_figure: MemoryFigure,
    pub additions: Additions,
    /// To be told before the start.
    pub warnings: Vec<Warning>,
}

/// Each says which flag or line is wrong and what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HostError {
    #[error(
        "--root is missing: name the cgroup whose child cgroups may be evicted, as in --root /sys/fs/cgroup/system.slice"
    )]
    NoRoot,
    #[error(
        "--eviction-hard is missing: say when to evict, as in --eviction-hard 'memory.available<500Mi', or give a file by --config"
    )]
    NoThreshold,
    #[error(
        "{0}: switches every threshold off (0% and 100% mean off) or has none that host mode can observe: nothing would ever be evicted; set one, as in memory.available<500Mi"
    )]
    NothingLeft(Origin),
    #[error("{flag} is missing: {place} needs a path on the file system to watch")]
    NoPath { flag: &'static str, place: Place },
    #[error(
        "{flag} is given, but no threshold is about {name}: add one to --eviction-hard, as in '{name}.available<10%'",
        name = flag.trim_start_matches('-')
    )]
    IdlePath { flag: &'static str },
    #[error(
        "--storage-limits needs --nodefs: name the kubelet's root directory (its --root-dir, usually /var/lib/kubelet)"
    )]
    LimitsNowhere,
    #[error(
        "{0}: switches every threshold off (0% and 100% mean off) or has none that is ours: no pod would ever be evicted; set one, as in memory.available<500Mi"
    )]
    NothingLeftForPods(Origin),
    #[error(
        "{flag} has no effect with --platform kubernetes, where the API tells of the workloads: leave it out"
    )]
    HostOnly { flag: &'static str },
    #[error(transparent)]
    Reclaim(#[from] ReclaimError),
    #[error("--workload {text:?}: {error}")]
    Workload {
        text: String,
        error: WorkloadSpecError,
    },
    #[error("--workload {0} is given twice")]
    WorkloadTwice(String),
}

/// A threshold's origin and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    origin: Origin,
    key: String,
}

impl Place {
    pub(super) fn new(origin: Origin, key: String) -> Self {
        Self { origin, key }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.origin, self.key)
    }
}

impl HostConfig {
    pub fn resolve(given: &HostFlags) -> Result<Self, ConfigError> {
        let root = given.root.clone().ok_or(HostError::NoRoot)?;
        let mut eviction = given.eviction.clone();
        if given.config.is_none() && eviction.hard.is_none() {
            if eviction.soft.is_none() {
                return Err(HostError::NoThreshold.into());
            }
            // Nobody asked for the kubelet's defaults.
            eviction.hard = Some(String::new());
        }
        let effective = Effective::load(given.config.as_deref(), &eviction)?;
        let none = effective.hard.entries.is_empty() && effective.soft.entries.is_empty();
        if given.config.is_none() && none {
            return Err(HostError::NoThreshold.into());
        }
        let (thresholds, ignored) = thresholds(&effective, &given.paths)?;
        if let Some(flag) = given.paths.idle(&thresholds).next() {
            return Err(HostError::IdlePath { flag }.into());
        }
        let watches_a_disk = thresholds
            .iter()
            .any(|t| fs_paths::flag(t.signal).is_some());
        let reclaim = reclaim::resolve(
            given.reclaim.as_deref(),
            given.reclaim_timeout.as_deref(),
            watches_a_disk,
        )
        .map_err(HostError::from)?;
        let interval = effective.monitoring_interval.value.as_nanos();
        Ok(Self {
            root,
            thresholds,
            paths: given.paths.clone(),
            reclaim,
            runtime_reclaims: false,
            workloads: workloads(&given.workloads)?,
            // Checked to be positive.
            interval: u64::try_from(interval).map_or(Duration::ZERO, Duration::from_nanos),
            transition_period: effective.transition_period.value,
            max_pod_grace_secs: effective.max_pod_grace.value.into(),
            memory_figure: effective.addition_settings.memory_figure(),
            additions: effective.additions.clone().sparing(),
            warnings: relevant(&effective)
                .into_iter()
                .chain(ignored)
                .chain(about_pods(&effective))
                .collect(),
        })
    }
}

/// The kubelet's defaults are mostly about what a host does not observe. Where the settings were written
/// for host mode nobody misses them, and adding them would be refused.
pub(super) fn relevant(effective: &Effective) -> Vec<Warning> {
    let for_a_kubelet = effective.format.is_some_and(Format::is_kubelets);
    let is_noise = |warning: &Warning| match warning.kind {
        WarningKind::DroppedDefaults(_) => warning.origin.is_flag() || !for_a_kubelet,
        // That depends on the devices, and is said when they are known.
        WarningKind::ContainerFsOverwritten => true,
        _ => false,
    };
    let warnings = effective.warnings.iter();
    warnings.filter(|w| !is_noise(w)).cloned().collect()
}

fn about_pods(effective: &Effective) -> impl Iterator<Item = Warning> {
    let settings = effective.addition_settings.of_pods_only();
    settings.map(|(key, origin)| Warning {
        origin: origin.clone(),
        key: key.to_owned(),
        kind: WarningKind::PodsOnly,
    })
}

fn workloads(texts: &[String]) -> Result<Vec<WorkloadSpec>, HostError> {
    let mut workloads: Vec<WorkloadSpec> = Vec::new();
    for text in texts {
        let spec: WorkloadSpec = text.parse().map_err(|error| HostError::Workload {
            text: text.clone(),
            error,
        })?;
        if workloads.iter().any(|w| w.name == spec.name) {
            return Err(HostError::WorkloadTwice(spec.name));
        }
        workloads.push(spec);
    }
    Ok(workloads)
}

/// Those that can be observed. What was written for host mode must all be of that kind; of what was
/// written for a kubelet, or is a default, the rest is left out with a warning.
fn thresholds(
    effective: &Effective,
    paths: &FsPaths,
) -> Result<(Vec<Threshold>, Vec<Warning>), ConfigError> {
    // memory.available always means the node here, so no allocatable copy is added.
    let all = effective.parse(false)?;
    let (mut kept, mut ignored) = (Vec::new(), Vec::new());
    for threshold in all {
        match paths.missing(threshold.signal) {
            None => kept.push(threshold),
            Some(flag) => ignored.push(refuse_or_ignore(effective, &threshold, flag)?),
        }
    }
    if kept.is_empty() {
        return Err(HostError::NothingLeft(effective.hard.origin.clone()).into());
    }
    Ok((kept, ignored))
}

fn refuse_or_ignore(
    effective: &Effective,
    threshold: &Threshold,
    flag: &'static str,
) -> Result<Warning, HostError> {
    let signal = threshold.signal;
    let source = if threshold.is_hard() && effective.hard.entries.contains_key(signal.name()) {
        Source::Hard
    } else {
        Source::Soft
    };
    let warning = about(
        effective,
        source,
        signal.name(),
        WarningKind::NeedsPath(flag),
    );
    let for_a_kubelet = effective.format.is_some_and(Format::is_kubelets);
    if warning.origin.is_default() || (for_a_kubelet && !warning.origin.is_flag()) {
        return Ok(warning);
    }
    let place = Place::new(warning.origin, warning.key);
    Err(HostError::NoPath { flag, place })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Signal;

    fn flags(hard: &str) -> HostFlags {
        HostFlags {
            root: Some("/sys/fs/cgroup/a".into()),
            eviction: EvictionFlags {
                hard: Some(hard.to_owned()),
                ..EvictionFlags::default()
            },
            ..HostFlags::default()
        }
    }

    fn nodefs(path: &str) -> FsPaths {
        FsPaths {
            nodefs: Some(path.into()),
            ..FsPaths::default()
        }
    }

    fn error(flags: &HostFlags) -> String {
        HostConfig::resolve(flags).unwrap_err().to_string()
    }

    #[test]
    fn what_the_readme_shows_is_accepted() {
        let given = HostFlags {
            paths: nodefs("/var"),
            workloads: vec!["web:priority=10,request=256Mi".into(), "batch".into()],
            ..flags("allocatableMemory.available<64Mi,nodefs.inodesFree<5%")
        };
        let config = HostConfig::resolve(&given).unwrap();
        let signals: Vec<_> = config.thresholds.iter().map(|t| t.signal).collect();
        assert_eq!(
            signals,
            [Signal::AllocatableMemoryAvailable, Signal::NodeFsInodesFree]
        );
        assert_eq!(config.interval, Duration::from_secs(10));
        assert_eq!(config.workloads.len(), 2);
    }

    #[test]
    fn memory_available_stays_the_nodes_alone() {
        let config = HostConfig::resolve(&flags("memory.available<64Mi")).unwrap();
        assert_eq!(
            config.thresholds.len(),
            1,
            "no allocatable copy: {:?}",
            config.thresholds
        );
    }

    #[test]
    fn soft_thresholds_alone_are_enough_and_bring_no_defaults() {
        let given = HostFlags {
            root: Some("/sys/fs/cgroup/a".into()),
            eviction: EvictionFlags {
                soft: Some("memory.available<1Gi".to_owned()),
                soft_grace: Some("memory.available=1m".to_owned()),
                ..EvictionFlags::default()
            },
            ..HostFlags::default()
        };
        let config = HostConfig::resolve(&given).unwrap();
        assert_eq!(config.thresholds.len(), 1);
        assert_eq!(config.warnings, []);
    }

    #[test]
    fn every_mistake_names_its_flag_and_the_fix() {
        for (hard, said) in [
            ("memory.available=64Mi", "memory.available=64Mi"),
            (
                "memory.availabel<64Mi",
                "unsupported eviction signal memory.availabel",
            ),
            ("memory.available<64Qi", "--eviction-hard: memory.available"),
            ("memory.available<-1", "must be positive"),
            ("memory.available<101%", "must be <= 100%"),
            ("nodefs.inodesFree<5%", "--nodefs is missing"),
            ("imagefs.available<5%", "--imagefs is missing"),
            ("containerfs.available<5%", "--containerfs is missing"),
            ("memory.available<100%", "switches every threshold off"),
            ("", "--eviction-hard is missing"),
        ] {
            let error = error(&flags(hard));
            assert!(error.contains(said), "{hard}: {error}");
        }
        let good = || flags("memory.available<64Mi");
        let every = |interval: &str| {
            let mut flags = good();
            flags.eviction.monitoring_interval = Some(interval.to_owned());
            flags
        };
        assert!(
            error(&HostFlags {
                root: None,
                ..good()
            })
            .contains("--root is missing")
        );
        assert!(
            error(&HostFlags {
                paths: nodefs("/"),
                ..good()
            })
            .contains("no threshold is about nodefs")
        );
        let reclaim = |hard: &str, command: Option<&str>, timeout: Option<&str>| {
            error(&HostFlags {
                paths: nodefs("/"),
                reclaim: command.map(str::to_owned),
                reclaim_timeout: timeout.map(str::to_owned),
                ..flags(hard)
            })
        };
        let disk = "nodefs.available<5%";
        assert!(reclaim(disk, Some(" "), None).contains("--reclaim is empty"));
        assert!(reclaim(disk, None, Some("1s")).contains("has no effect without --reclaim"));
        assert!(reclaim(disk, Some("true"), Some("5")).contains("--reclaim-timeout: "));
        assert!(reclaim(disk, Some("true"), Some("0s")).contains("must be positive"));
        assert!(
            error(&HostFlags {
                reclaim: Some("true".to_owned()),
                ..good()
            })
            .contains("no threshold is about a disk")
        );
        assert!(error(&every("10")).contains("missing unit"));
        assert!(error(&every("1ms")).contains("at least"));
        assert!(
            error(&HostFlags {
                workloads: vec!["a".into(), "a:protect".into()],
                ..good()
            })
            .contains("twice")
        );
        assert!(
            error(&HostFlags {
                workloads: vec!["a:x=1".into()],
                ..good()
            })
            .contains("unknown key")
        );
    }
}
