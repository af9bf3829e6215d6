//! The settings of host mode.

use crate::host::{WorkloadSpec, WorkloadSpecError};
use crate::model::{Signal, Span, Threshold};
use crate::policy::thresholds::flags::{self, MalformedPair};
use crate::policy::thresholds::parse::{self, ThresholdError, ThresholdTexts};
use std::path::PathBuf;
use std::time::Duration;

/// What host mode observes and acts on.
pub(super) const SIGNALS: [Signal; 3] = [
    Signal::MemoryAvailable,
    Signal::AllocatableMemoryAvailable,
    Signal::NodeFsInodesFree,
];

/// Shorter cycles would do nothing but cost.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// As given on the command line.
#[derive(Debug, Clone, Default)]
pub struct HostFlags {
    pub root: Option<PathBuf>,
    pub eviction_hard: Option<String>,
    pub nodefs: Option<PathBuf>,
    pub workloads: Vec<String>,
    pub monitoring_interval: String,
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
}

/// Each says which flag is wrong and what would be right.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    #[error(
        "--root is missing: name the cgroup whose child cgroups may be evicted, as in --root /sys/fs/cgroup/system.slice"
    )]
    NoRoot,
    #[error(
        "--eviction-hard is missing: say when to evict, as in --eviction-hard 'memory.available<500Mi'"
    )]
    NoThreshold,
    #[error("--eviction-hard: {error} (at {:?})", error.piece)]
    Pair { error: MalformedPair },
    #[error("--eviction-hard: {}: {error}", error.signal)]
    Threshold { error: ThresholdError },
    #[error(
        "--eviction-hard: {signal} is not observed in host mode; use {}",
        names()
    )]
    UnsupportedSignal { signal: Signal },
    #[error(
        "--eviction-hard: {0:?} switches every threshold off (0% and 100% mean off): nothing would ever be evicted"
    )]
    AllOff(String),
    #[error("--nodefs is missing: {signal} needs a path on the file system to watch")]
    NoNodefs { signal: Signal },
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
    #[error("--monitoring-interval {text:?}: {reason}; write it as in 10s or 500ms")]
    Interval { text: String, reason: String },
}

fn names() -> String {
    SIGNALS.map(Signal::name).join(", ")
}

impl HostConfig {
    pub fn from_flags(given: &HostFlags) -> Result<Self, ConfigError> {
        let root = given.root.clone().ok_or(ConfigError::NoRoot)?;
        let thresholds = thresholds(
            given
                .eviction_hard
                .as_deref()
                .ok_or(ConfigError::NoThreshold)?,
        )?;
        let disk = thresholds
            .iter()
            .map(|t| t.signal)
            .find(|&s| s == Signal::NodeFsInodesFree);
        match (disk, &given.nodefs) {
            (Some(signal), None) => return Err(ConfigError::NoNodefs { signal }),
            (None, Some(_)) => return Err(ConfigError::IdleNodefs),
            _ => {}
        }
        let mut workloads: Vec<WorkloadSpec> = Vec::new();
        for text in &given.workloads {
            let spec: WorkloadSpec = text.parse().map_err(|error| ConfigError::Workload {
                text: text.clone(),
                error,
            })?;
            if workloads.iter().any(|w| w.name == spec.name) {
                return Err(ConfigError::WorkloadTwice(spec.name));
            }
            workloads.push(spec);
        }
        let interval = interval(&given.monitoring_interval)?;
        Ok(Self {
            root,
            thresholds,
            nodefs: given.nodefs.clone(),
            workloads,
            interval,
        })
    }
}

fn thresholds(text: &str) -> Result<Vec<Threshold>, ConfigError> {
    let hard = flags::limits(text).map_err(|error| ConfigError::Pair { error })?;
    if hard.is_empty() {
        return Err(ConfigError::NoThreshold);
    }
    // memory.available always means the node here, so no allocatable copy is added.
    let texts = ThresholdTexts {
        hard,
        enforce_pods_allocatable: false,
        ..ThresholdTexts::default()
    };
    let thresholds = parse::parse(&texts).map_err(|error| ConfigError::Threshold { error })?;
    if let Some(other) = thresholds.iter().find(|t| !SIGNALS.contains(&t.signal)) {
        return Err(ConfigError::UnsupportedSignal {
            signal: other.signal,
        });
    }
    if thresholds.is_empty() {
        return Err(ConfigError::AllOff(text.to_owned()));
    }
    Ok(thresholds)
}

fn interval(text: &str) -> Result<Duration, ConfigError> {
    let wrong = |reason: String| ConfigError::Interval {
        text: text.to_owned(),
        reason,
    };
    let span: Span = text.parse().map_err(|e| wrong(format!("{e}")))?;
    let interval = u64::try_from(span.as_nanos()).map_or(Duration::ZERO, Duration::from_nanos);
    if interval < SHORTEST_INTERVAL {
        return Err(wrong(format!("must be at least {SHORTEST_INTERVAL:?}")));
    }
    Ok(interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(hard: &str) -> HostFlags {
        HostFlags {
            root: Some("/sys/fs/cgroup/a".into()),
            eviction_hard: Some(hard.to_owned()),
            monitoring_interval: "10s".to_owned(),
            ..HostFlags::default()
        }
    }

    fn error(flags: &HostFlags) -> String {
        HostConfig::from_flags(flags).unwrap_err().to_string()
    }

    #[test]
    fn what_the_readme_shows_is_accepted() {
        let given = HostFlags {
            nodefs: Some("/var".into()),
            workloads: vec!["web:priority=10,request=256Mi".into(), "batch".into()],
            ..flags("allocatableMemory.available<64Mi,nodefs.inodesFree<5%")
        };
        let config = HostConfig::from_flags(&given).unwrap();
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
        let config = HostConfig::from_flags(&flags("memory.available<64Mi")).unwrap();
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
        assert!(
            error(&HostFlags {
                monitoring_interval: "10".into(),
                ..good()
            })
            .contains("missing unit")
        );
        assert!(
            error(&HostFlags {
                monitoring_interval: "1ms".into(),
                ..good()
            })
            .contains("at least")
        );
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
