//! The settings of host mode.

use super::check::about;
use super::effective::Effective;
use super::error::ConfigError;
use super::flags::EvictionFlags;
use super::format::Format;
use super::origin::Origin;
use super::warning::{Warning, WarningKind};
use crate::host::{WorkloadSpec, WorkloadSpecError};
use crate::model::{Signal, Span, Threshold};
use crate::policy::additions::Additions;
use crate::policy::additions::memory_figure::MemoryFigure;
use crate::policy::thresholds::parse::Source;
use std::path::PathBuf;
use std::time::Duration;

/// What host mode observes and acts on.
const SIGNALS: [Signal; 3] = [
    Signal::MemoryAvailable,
    Signal::AllocatableMemoryAvailable,
    Signal::NodeFsInodesFree,
];

/// As given on the command line.
#[derive(Debug, Clone, Default)]
pub struct HostFlags {
    pub root: Option<PathBuf>,
    /// A configuration file, of any kind that is understood.
    pub config: Option<PathBuf>,
    pub eviction: EvictionFlags,
    pub nodefs: Option<PathBuf>,
    pub workloads: Vec<String>,
}

/// As checked.
#[derive(Debug, Clone)]
pub struct HostConfig {
    /// The cgroup whose children are the workloads.
    pub root: PathBuf,
    pub thresholds: Vec<Threshold>,
    /// Set if and only if an inode threshold needs it.
    pub nodefs: Option<PathBuf>,
    pub workloads: Vec<WorkloadSpec>,
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
    #[error("{0} is not observed in host mode; use {names}", names = names())]
    UnsupportedSignal(Place),
    #[error("{0}: host mode acts on hard thresholds only for now; make it a hard one or remove it")]
    Soft(Place),
    #[error(
        "{0}: switches every threshold off (0% and 100% mean off) or has none that host mode observes: nothing would ever be evicted; set one of {names}",
        names = names()
    )]
    NothingLeft(Origin),
    #[error("--nodefs is missing: {0} needs a path on the file system to watch")]
    NoNodefs(Place),
    #[error(
        "--nodefs is given, but no threshold is about nodefs: add one to --eviction-hard, as in 'nodefs.inodesFree<5%'"
    )]
    IdleNodefs,
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

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.origin, self.key)
    }
}

fn names() -> String {
    SIGNALS.map(Signal::name).join(", ")
}

impl HostConfig {
    pub fn resolve(given: &HostFlags) -> Result<Self, ConfigError> {
        let root = given.root.clone().ok_or(HostError::NoRoot)?;
        if given.config.is_none() && given.eviction.hard.is_none() {
            return Err(HostError::NoThreshold.into());
        }
        let effective = Effective::load(given.config.as_deref(), &given.eviction)?;
        if given.config.is_none() && effective.hard.entries.is_empty() {
            return Err(HostError::NoThreshold.into());
        }
        let (thresholds, ignored) = thresholds(&effective, given.nodefs.is_some())?;
        let has_nodefs = thresholds
            .iter()
            .any(|t| t.signal == Signal::NodeFsInodesFree);
        if given.nodefs.is_some() && !has_nodefs {
            return Err(HostError::IdleNodefs.into());
        }
        let interval = effective.monitoring_interval.value.as_nanos();
        Ok(Self {
            root,
            thresholds,
            nodefs: given.nodefs.clone(),
            workloads: workloads(&given.workloads)?,
            // Checked to be positive.
            interval: u64::try_from(interval).map_or(Duration::ZERO, Duration::from_nanos),
            transition_period: effective.transition_period.value,
            max_pod_grace_secs: effective.max_pod_grace.value.into(),
            memory_figure: effective.addition_settings.memory_figure(),
            additions: effective.additions.clone().for_a_host(),
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
fn relevant(effective: &Effective) -> Vec<Warning> {
    let for_a_kubelet = effective.format.is_some_and(Format::is_kubelets);
    let is_noise = |warning: &Warning| {
        matches!(warning.kind, WarningKind::DroppedDefaults(_))
            && (warning.origin.is_flag() || !for_a_kubelet)
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

/// Those that host mode can act on. What was written for host mode must all be of that kind; of what
/// was written for a kubelet, or is a default, the rest is left out with a warning.
fn thresholds(
    effective: &Effective,
    has_nodefs: bool,
) -> Result<(Vec<Threshold>, Vec<Warning>), ConfigError> {
    // memory.available always means the node here, so no allocatable copy is added.
    let all = effective.parse(false)?;
    let (mut kept, mut ignored) = (Vec::new(), Vec::new());
    for threshold in all {
        match obstacle(&threshold, has_nodefs) {
            None => kept.push(threshold),
            Some(obstacle) => ignored.push(refuse_or_ignore(effective, &threshold, obstacle)?),
        }
    }
    if kept.is_empty() {
        return Err(HostError::NothingLeft(effective.hard.origin.clone()).into());
    }
    Ok((kept, ignored))
}

enum Obstacle {
    NotObserved,
    Soft,
    NoNodefs,
}

fn obstacle(threshold: &Threshold, has_nodefs: bool) -> Option<Obstacle> {
    if !SIGNALS.contains(&threshold.signal) {
        Some(Obstacle::NotObserved)
    } else if !threshold.is_hard() {
        Some(Obstacle::Soft)
    } else if threshold.signal == Signal::NodeFsInodesFree && !has_nodefs {
        Some(Obstacle::NoNodefs)
    } else {
        None
    }
}

fn refuse_or_ignore(
    effective: &Effective,
    threshold: &Threshold,
    obstacle: Obstacle,
) -> Result<Warning, HostError> {
    let signal = threshold.signal;
    let source = if threshold.is_hard() && effective.hard.entries.contains_key(signal.name()) {
        Source::Hard
    } else {
        Source::Soft
    };
    let kind = match obstacle {
        Obstacle::NotObserved => WarningKind::NotObserved,
        Obstacle::Soft => WarningKind::SoftIgnored,
        Obstacle::NoNodefs => WarningKind::NeedsNodefs,
    };
    let warning = about(effective, source, signal.name(), kind);
    let for_a_kubelet = effective.format.is_some_and(Format::is_kubelets);
    if warning.origin.is_default() || (for_a_kubelet && !warning.origin.is_flag()) {
        return Ok(warning);
    }
    let place = Place {
        origin: warning.origin,
        key: warning.key,
    };
    Err(match obstacle {
        Obstacle::NotObserved => HostError::UnsupportedSignal(place),
        Obstacle::Soft => HostError::Soft(place),
        Obstacle::NoNodefs => HostError::NoNodefs(place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn error(flags: &HostFlags) -> String {
        HostConfig::resolve(flags).unwrap_err().to_string()
    }

    #[test]
    fn what_the_readme_shows_is_accepted() {
        let given = HostFlags {
            nodefs: Some("/var".into()),
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
            (
                "pid.available<100",
                "pid.available is not observed in host mode; use memory.available, ",
            ),
            ("nodefs.inodesFree<5%", "--nodefs is missing"),
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
                nodefs: Some("/".into()),
                ..good()
            })
            .contains("no threshold is about nodefs")
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
