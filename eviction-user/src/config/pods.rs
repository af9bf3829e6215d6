//! The settings of a Kubernetes node.

use super::check::about;
use super::effective::Effective;
use super::error::ConfigError;
use super::format::Format;
use super::fs_paths::{self, FsPaths};
use super::host::{HostConfig, HostError, HostFlags, Place, relevant};
use super::reclaim;
use super::warning::{Warning, WarningKind};
use crate::model::{Signal, Threshold};
use crate::policy::thresholds::parse::Source;
use std::path::PathBuf;
use std::time::Duration;

impl HostConfig {
    /// `effective`: our settings; without any the kubelet's defaults are in force. `root`: the cgroup that holds all pods.
    /// `decided`: what kubelet and runtime say of the paths; flags win.
    pub fn resolve_for_pods(
        given: &HostFlags,
        effective: &Effective,
        root: PathBuf,
        decided: &FsPaths,
    ) -> Result<Self, ConfigError> {
        if let Some(flag) = for_a_host_only(given) {
            return Err(HostError::HostOnly { flag }.into());
        }
        let mut paths = given.paths.clone().or(decided);
        let (thresholds, left) = thresholds(effective, &paths)?;
        if given.storage_limits && paths.nodefs.is_none() {
            return Err(HostError::LimitsNowhere.into());
        }
        // The kubelet's directory is where volumes lie, whichever disk has a line, and layers lie on the runtime's.
        let has_disk = thresholds
            .iter()
            .any(|t| fs_paths::flag(t.signal).is_some());
        let runtime_reclaims =
            reclaim::of_pods(given.reclaim.as_deref(), has_disk).map_err(HostError::from)?;
        if !given.storage_limits && !has_disk {
            paths.clone_from(&given.paths);
        }
        let is_idle = |flag: &&str| match *flag {
            "--nodefs" => !has_disk && !given.storage_limits,
            "--imagefs" => !given.storage_limits,
            _ => true,
        };
        if let Some(flag) = given.paths.idle(&thresholds).find(is_idle) {
            return Err(HostError::IdlePath { flag }.into());
        }
        let interval = effective.monitoring_interval.value.as_nanos();
        Ok(Self {
            root,
            thresholds,
            paths,
            reclaim: None,
            runtime_reclaims,
            workloads: Vec::new(),
            // Checked to be positive.
            interval: u64::try_from(interval).map_or(Duration::ZERO, Duration::from_nanos),
            transition_period: effective.transition_period.value,
            max_pod_grace_secs: effective.max_pod_grace.value.into(),
            memory_figure: effective.addition_settings.memory_figure(),
            additions: effective.additions.clone().sparing(),
            warnings: relevant(effective).into_iter().chain(left).collect(),
        })
    }
}

impl Effective {
    /// Is a line of our own about a disk? (Those that are not written for us are left to the kubelet.)
    pub fn watches_a_disk(&self) -> bool {
        let mut lines = self.thresholds.iter();
        lines.any(|t| fs_paths::flag(t.signal).is_some() && is_ours(self, t))
    }
}

/// A flag that has no meaning where the API tells of the workloads.
fn for_a_host_only(given: &HostFlags) -> Option<&'static str> {
    let flags = [
        ("--workload", !given.workloads.is_empty()),
        ("--reclaim-timeout", given.reclaim_timeout.is_some()),
    ];
    let given = flags.into_iter().find(|(_, is_given)| *is_given);
    given.map(|(flag, _)| flag)
}

/// The kubelet's own soft thresholds are left to it, and its own for disks, where it removes images before pods: told where they were
/// written for a kubelet or are defaults.
fn thresholds(
    effective: &Effective,
    paths: &FsPaths,
) -> Result<(Vec<Threshold>, Vec<Warning>), ConfigError> {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for threshold in effective.parse(effective.enforces_pods())? {
        let is_of_a_disk = fs_paths::flag(threshold.signal).is_some();
        if threshold.is_hard() && !is_of_a_disk {
            // The other memory signal has its line from this one.
            let is_memory = threshold.signal == Signal::MemoryAvailable;
            let shared = kubelets_own(effective, &threshold, WarningKind::SharedWithTheKubelet);
            left.extend(shared.ok().filter(|_| is_memory));
            kept.push(threshold);
            continue;
        }
        let own = kubelets_own(effective, &threshold, WarningKind::LeftToTheKubelet);
        match (own, paths.missing(threshold.signal)) {
            (Ok(warning), _) => left.push(warning),
            (Err(place), Some(flag)) => return Err(HostError::NoPath { flag, place }.into()),
            (Err(_), _) => kept.push(threshold),
        }
    }
    if kept.is_empty() {
        return Err(HostError::NothingLeftForPods(effective.hard.origin.clone()).into());
    }
    Ok((kept, left))
}

/// Of a hard threshold: those of disks are, unless nobody wrote them for us.
pub(super) fn is_ours(effective: &Effective, threshold: &Threshold) -> bool {
    fs_paths::flag(threshold.signal).is_none()
        || kubelets_own(effective, threshold, WarningKind::LeftToTheKubelet).is_err()
}

/// What is told of a threshold that was not written for us; `Err`: where it was.
fn kubelets_own(
    effective: &Effective,
    threshold: &Threshold,
    kind: WarningKind,
) -> Result<Warning, Place> {
    let signal = threshold.signal.name();
    let source = if threshold.is_hard() {
        Source::Hard
    } else {
        Source::Soft
    };
    let warning = about(effective, source, signal, kind);
    let for_a_kubelet = effective.format.is_some_and(Format::is_kubelets);
    if warning.origin.is_default() || (for_a_kubelet && !warning.origin.is_flag()) {
        return Ok(warning);
    }
    Err(Place::new(warning.origin, warning.key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EvictionFlags;

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
        resolve_beside(flags, None)
    }

    fn effective(flags: &HostFlags) -> Effective {
        Effective::load(flags.config.as_deref(), &flags.eviction).unwrap()
    }

    fn resolve_beside(flags: &HostFlags, kubelet: Option<&str>) -> Result<HostConfig, String> {
        let effective = effective(flags);
        let root = "/sys/fs/cgroup/kubepods".into();
        let decided = FsPaths {
            nodefs: kubelet.map(PathBuf::from),
            imagefs: kubelet.map(|_| "/r".into()),
            containerfs: None,
        };
        HostConfig::resolve_for_pods(flags, &effective, root, &decided).map_err(|e| e.to_string())
    }

    #[test]
    fn disks_are_where_kubelet_and_runtime_say_unless_a_flag_names_another_and_only_where_a_line_is_about_any()
     {
        let paths = |flags: &HostFlags| {
            let paths = resolve_beside(flags, Some("/k")).unwrap().paths;
            let text =
                |path: Option<PathBuf>| path.map_or(String::new(), |p| p.display().to_string());
            [paths.nodefs, paths.imagefs, paths.containerfs].map(text)
        };
        // Which of them is the other decides what counts on either, also where only one has a line.
        for line in ["nodefs.available<5%", "imagefs.available<5%"] {
            let disk = flags(Some(line));
            assert_eq!(paths(&disk), ["/k", "/r", ""], "{line}");
            assert!(effective(&disk).watches_a_disk(), "{line}");
        }
        for memory in [flags(Some("memory.available<1Gi")), flags(None)] {
            assert_eq!(paths(&memory), ["", "", ""]);
            assert!(!effective(&memory).watches_a_disk());
        }
        let other = FsPaths {
            nodefs: Some("/other".into()),
            ..FsPaths::default()
        };
        let given = HostFlags {
            paths: other,
            ..flags(Some("nodefs.available<5%"))
        };
        assert_eq!(paths(&given), ["/other", "/r", ""]);
    }

    #[test]
    fn the_runtime_reclaims_where_a_disk_has_a_line_unless_that_is_left_to_the_kubelet() {
        for (line, word, expected) in [
            ("nodefs.available<5%", None, true),
            ("nodefs.available<5%", Some("runtime"), true),
            ("nodefs.available<5%", Some("off"), false),
            ("memory.available<1Gi", None, false),
            ("memory.available<1Gi", Some("off"), false),
        ] {
            let given = HostFlags {
                reclaim: word.map(str::to_owned),
                ..flags(Some(line))
            };
            let config = resolve_beside(&given, Some("/k")).unwrap();
            assert_eq!(config.runtime_reclaims, expected, "{line} {word:?}");
        }
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
        let with = |said: &str| left.iter().filter(|text| text.contains(said)).count();
        assert_eq!(with("left to the kubelet"), 4, "{left:?}");
        // Memory's line is the kubelet's default, too.
        assert_eq!(with("may take two pods"), 1, "{left:?}");
        assert_eq!(left.len(), 5);
    }

    #[test]
    fn a_limit_for_pods_together_is_kept_with_that_for_the_node() {
        let config = resolve(&flags(Some("memory.available<1Gi,pid.available<10%"))).unwrap();
        assert_eq!(config.thresholds.len(), 3, "{:?}", config.thresholds);
        assert_eq!(config.warnings, []);
    }

    #[test]
    fn a_line_of_our_own_for_a_disk_is_kept_and_the_defaults_stay_the_kubelets() {
        let paths = FsPaths {
            nodefs: Some("/var/lib/kubelet".into()),
            ..FsPaths::default()
        };
        let given = HostFlags {
            paths,
            ..flags(Some("nodefs.available<5%,nodefs.inodesFree<2%"))
        };
        let config = resolve(&given).unwrap();
        let signals: Vec<_> = config.thresholds.iter().map(|t| t.signal).collect();
        assert_eq!(signals, [Signal::NodeFsAvailable, Signal::NodeFsInodesFree]);
        let with_defaults = HostFlags {
            eviction: EvictionFlags::default(),
            ..given
        };
        let error = resolve(&with_defaults).unwrap_err();
        assert!(error.contains("no threshold is about nodefs"), "{error}");
    }

    #[test]
    fn soft_thresholds_of_our_own_are_kept_and_a_kubelets_are_left_to_it() {
        let soft = |signal: &str| HostFlags {
            eviction: EvictionFlags {
                soft: Some(format!("{signal}<1Gi")),
                soft_grace: Some(format!("{signal}=1m")),
                max_pod_grace: Some("30".into()),
                ..EvictionFlags::default()
            },
            ..flags(Some("memory.available<500Mi"))
        };
        let kept = |flags: &HostFlags| {
            let config = resolve_beside(flags, Some("/k")).unwrap();
            let soft = config.thresholds.iter().filter(|t| !t.is_hard()).count();
            (soft, config.max_pod_grace_secs)
        };
        assert_eq!(kept(&soft("memory.available")), (1, 30));
        assert_eq!(kept(&soft("nodefs.available")), (1, 30));
        assert!(effective(&soft("nodefs.available")).watches_a_disk());
        let error = resolve(&soft("nodefs.available")).unwrap_err();
        assert!(error.contains("--nodefs is missing"), "{error}");

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubelet.yaml");
        let kubelets = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
            evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\n";
        std::fs::write(&file, kubelets).unwrap();
        let given = HostFlags {
            config: Some(file),
            ..flags(None)
        };
        let config = resolve(&given).unwrap();
        assert!(config.thresholds.iter().all(Threshold::is_hard));
        let told = config.warnings.iter().map(ToString::to_string);
        let told: Vec<_> = told.filter(|text| text.contains("evictionSoft")).collect();
        assert_eq!(told.len(), 1, "{told:?}");
    }

    #[test]
    fn pods_own_limits_need_no_line_for_a_disk() {
        let given = HostFlags {
            storage_limits: true,
            paths: FsPaths {
                nodefs: Some("/var/lib/kubelet".into()),
                imagefs: Some("/var/lib/containerd".into()),
                ..FsPaths::default()
            },
            ..flags(None)
        };
        let config = resolve(&given).unwrap();
        assert_eq!(config.thresholds.len(), 2, "{:?}", config.thresholds);
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
        let limits = HostFlags {
            storage_limits: true,
            ..flags(None)
        };
        let reclaims = |word: &str, hard: Option<&str>| HostFlags {
            reclaim: Some(word.to_owned()),
            paths: FsPaths {
                nodefs: hard.map(|_| "/k".into()),
                ..FsPaths::default()
            },
            ..flags(hard)
        };
        let disk = Some("nodefs.available<5%");
        for (flags, said) in [
            (
                reclaims("rm -r /tmp", disk),
                "--reclaim \"rm -r /tmp\": with --platform kubernetes it is `runtime`",
            ),
            (reclaims("", disk), "or `off`"),
            (
                reclaims("runtime", None),
                "--reclaim runtime is given, but no threshold is about a disk",
            ),
            (limits, "--storage-limits needs --nodefs"),
            (path, "no threshold is about imagefs"),
            (
                workload,
                "--workload has no effect with --platform kubernetes",
            ),
            (
                flags(Some("nodefs.available<10%")),
                "--nodefs is missing: --eviction-hard: nodefs.available needs a path",
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
