//! The settings of a Kubernetes node.

use super::check::about;
use super::effective::Effective;
use super::error::ConfigError;
use super::format::Format;
use super::host::{HostConfig, HostError, HostFlags, Place, relevant};
use super::warning::{Warning, WarningKind};
use crate::model::{Signal, Threshold};
use crate::policy::thresholds::parse::Source;
use std::path::PathBuf;
use std::time::Duration;

impl HostConfig {
    /// `root`: the cgroup that holds all pods. Without any setting the kubelet's defaults are in force.
    pub fn resolve_for_pods(given: &HostFlags, root: PathBuf) -> Result<Self, ConfigError> {
        if let Some(flag) = for_a_host_only(given) {
            return Err(HostError::HostOnly { flag }.into());
        }
        let effective = Effective::load(given.config.as_deref(), &given.eviction)?;
        let (thresholds, left) = thresholds(&effective)?;
        let interval = effective.monitoring_interval.value.as_nanos();
        Ok(Self {
            root,
            thresholds,
            paths: given.paths.clone(),
            reclaim: None,
            workloads: Vec::new(),
            // Checked to be positive.
            interval: u64::try_from(interval).map_or(Duration::ZERO, Duration::from_nanos),
            transition_period: effective.transition_period.value,
            max_pod_grace_secs: effective.max_pod_grace.value.into(),
            memory_figure: effective.addition_settings.memory_figure(),
            additions: effective.additions.clone(),
            warnings: relevant(&effective).into_iter().chain(left).collect(),
        })
    }
}

/// A flag that has no meaning where the API tells of the workloads.
fn for_a_host_only(given: &HostFlags) -> Option<&'static str> {
    let mut paths = given.paths.named().into_iter();
    let path = paths.find_map(|(flag, path)| path.as_ref().map(|_| flag));
    let others = [
        ("--workload", !given.workloads.is_empty()),
        ("--reclaim", given.reclaim.is_some()),
        ("--reclaim-timeout", given.reclaim_timeout.is_some()),
    ];
    path.or_else(|| {
        others
            .into_iter()
            .find(|(_, is_given)| *is_given)
            .map(|(flag, _)| flag)
    })
}

/// Pods are evicted at once, for memory and PIDs. The rest is left to the kubelet: told where it was written for a kubelet or is a
/// default, refused where it was written for us.
fn thresholds(effective: &Effective) -> Result<(Vec<Threshold>, Vec<Warning>), ConfigError> {
    let all = effective.parse(effective.enforces_pods())?;
    let (kept, left): (Vec<_>, Vec<_>) = all.into_iter().partition(is_ours);
    let left = left
        .iter()
        .map(|threshold| refuse_or_leave(effective, threshold));
    let left = left.collect::<Result<Vec<_>, _>>()?;
    if kept.is_empty() {
        return Err(HostError::NothingLeftForPods(effective.hard.origin.clone()).into());
    }
    Ok((kept, left))
}

fn is_ours(threshold: &Threshold) -> bool {
    threshold.is_hard()
        && matches!(
            threshold.signal,
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable
        )
}

fn refuse_or_leave(effective: &Effective, threshold: &Threshold) -> Result<Warning, HostError> {
    let signal = threshold.signal.name();
    let source = if threshold.is_hard() {
        Source::Hard
    } else {
        Source::Soft
    };
    let warning = about(effective, source, signal, WarningKind::LeftToTheKubelet);
    let for_a_kubelet = effective.format.is_some_and(Format::is_kubelets);
    if warning.origin.is_default() || (for_a_kubelet && !warning.origin.is_flag()) {
        return Ok(warning);
    }
    Err(HostError::NotForPods(Place::new(
        warning.origin,
        warning.key,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{EvictionFlags, FsPaths};

    fn flags(hard: Option<&str>) -> HostFlags {
        HostFlags {
            eviction: EvictionFlags {
                hard: hard.map(str::to_owned),
                ..EvictionFlags::default()
            },
            ..HostFlags::default()
        }
    }

    fn resolve(flags: &HostFlags) -> Result<HostConfig, String> {
        HostConfig::resolve_for_pods(flags, "/sys/fs/cgroup/kubepods".into())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn without_a_word_the_kubelets_defaults_are_in_force_as_far_as_they_are_ours() {
        let config = resolve(&flags(None)).unwrap();
        let texts: Vec<_> = config.thresholds.iter().map(|t| t.signal).collect();
        assert_eq!(
            texts,
            [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable]
        );
        let left: Vec<_> = config.warnings.iter().map(ToString::to_string).collect();
        assert_eq!(left.len(), 4, "{left:?}");
        assert!(left[0].contains("left to the kubelet"), "{left:?}");
    }

    #[test]
    fn a_limit_for_pods_together_is_kept_with_that_for_the_node() {
        let config = resolve(&flags(Some("memory.available<1Gi,pid.available<10%"))).unwrap();
        assert_eq!(config.thresholds.len(), 3, "{:?}", config.thresholds);
        assert_eq!(config.warnings, []);
    }

    #[test]
    fn what_is_asked_of_us_and_not_done_is_refused_by_name() {
        let path = HostFlags {
            paths: FsPaths {
                imagefs: Some("/".into()),
                ..FsPaths::default()
            },
            ..flags(None)
        };
        let workload = HostFlags {
            workloads: vec!["a".into()],
            ..flags(None)
        };
        let soft = HostFlags {
            eviction: EvictionFlags {
                soft: Some("memory.available<1Gi".into()),
                soft_grace: Some("memory.available=1m".into()),
                ..EvictionFlags::default()
            },
            ..HostFlags::default()
        };
        for (flags, said) in [
            (path, "--imagefs has no effect with --platform kubernetes"),
            (
                workload,
                "--workload has no effect with --platform kubernetes",
            ),
            (
                soft,
                "--eviction-soft: memory.available: not done for pods yet",
            ),
            (
                flags(Some("nodefs.available<10%")),
                "--eviction-hard: nodefs.available: not done for pods yet",
            ),
            (
                flags(Some("memory.available<0%")),
                "switches every threshold off",
            ),
        ] {
            let error = resolve(&flags).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
