//! What host mode makes of a file: strict with what was written for it, lenient with a kubelet's.

use super::{Folder, KUBELET, OWN, flags};
use crate::config::{EvictionFlags, HostConfig, HostFlags};
use crate::model::Signal;
use std::time::Duration;

fn resolve(folder: &Folder, change: impl FnOnce(&mut HostFlags)) -> Result<HostConfig, String> {
    let mut given = HostFlags {
        root: Some("/sys/fs/cgroup/a".into()),
        config: Some(folder.file()),
        ..HostFlags::default()
    };
    change(&mut given);
    HostConfig::resolve(&given).map_err(|e| folder.short(&e.to_string()))
}

fn signals(config: &HostConfig) -> Vec<Signal> {
    config.thresholds.iter().map(|t| t.signal).collect()
}

#[test]
fn our_own_file_sets_all_that_host_mode_uses() {
    let body = "evictionHard:\n  allocatableMemory.available: 64Mi\n  nodefs.inodesFree: 5%\n\
        evictionMinimumReclaim: {nodefs.inodesFree: 1%}\nevictionPressureTransitionPeriod: 1m\n\
        evictionMaxPodGracePeriod: 7\nmonitoringInterval: 500ms\n";
    let folder = Folder::with(&format!("{OWN}{body}"), &[]);
    let config = resolve(&folder, |given| given.nodefs = Some("/var".into())).unwrap();
    assert_eq!(
        signals(&config),
        [Signal::AllocatableMemoryAvailable, Signal::NodeFsInodesFree]
    );
    assert!(config.thresholds[1].min_reclaim.is_some());
    assert_eq!(config.warnings, []);
    assert_eq!(config.interval, Duration::from_millis(500));
    assert_eq!(config.transition_period.to_string(), "1m0s");
    assert_eq!(config.max_pod_grace_secs, 7);
    let faster = resolve(&folder, |given| {
        given.nodefs = Some("/var".into());
        given.eviction.monitoring_interval = Some("100ms".into());
    });
    assert_eq!(faster.unwrap().interval, Duration::from_millis(100));
}

#[test]
fn what_our_own_file_or_a_flag_asks_for_in_vain_is_an_error() {
    let table = [
        (
            "evictionHard:\n  pid.available: \"100\"\n",
            "f.yaml:4: evictionHard: pid.available is not observed in host mode; use memory.available, ",
        ),
        (
            "evictionHard:\n  nodefs.inodesFree: 5%\n",
            "--nodefs is missing: f.yaml:4: evictionHard: nodefs.inodesFree needs a path",
        ),
        (
            "evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\n",
            "f.yaml:3: evictionSoft: memory.available: host mode acts on hard thresholds only for now",
        ),
        (
            "evictionHard: {}\n",
            "f.yaml:3: switches every threshold off",
        ),
    ];
    for (body, said) in table {
        let folder = Folder::with(&format!("{OWN}{body}"), &[]);
        let error = resolve(&folder, |_| {}).unwrap_err();
        assert!(error.starts_with(said), "got {error}\nwant {said}");
    }
    let folder = Folder::with(KUBELET, &[]);
    let soft = flags(|f| {
        f.soft = Some("memory.available<1Gi".into());
        f.soft_grace = Some("memory.available=1m".into());
    });
    let error = resolve(&folder, |given| given.eviction = soft).unwrap_err();
    assert!(
        error.starts_with("--eviction-soft: memory.available: host mode acts on hard"),
        "{error}"
    );
}

#[test]
fn what_a_kubelets_file_asks_for_in_vain_is_left_out_with_a_warning() {
    let body = "evictionHard:\n  memory.available: 1Gi\n  nodefs.available: 10%\n  nodefs.inodesFree: 5%\n  \
        imagefs.available: 15%\n  imagefs.inodesFree: 5%\n\
        evictionSoft: {memory.available: 2Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\n";
    let folder = Folder::with(&format!("{KUBELET}{body}"), &[]);
    let config = resolve(&folder, |_| {}).unwrap();
    assert_eq!(signals(&config), [Signal::MemoryAvailable]);
    let warnings: Vec<_> = config
        .warnings
        .iter()
        .map(|w| folder.short(&w.to_string()))
        .collect();
    assert_eq!(
        warnings,
        [
            "f.yaml:5: evictionHard: nodefs.available: is not observed in host mode: ignored",
            "f.yaml:6: evictionHard: nodefs.inodesFree: needs --nodefs, a path on the file system to watch: ignored",
            "f.yaml:7: evictionHard: imagefs.available: is not observed in host mode: ignored",
            "f.yaml:8: evictionHard: imagefs.inodesFree: is not observed in host mode: ignored",
            "f.yaml:9: evictionSoft: memory.available: host mode acts on hard thresholds only for now: ignored",
        ]
    );
}

#[test]
fn defaults_that_cannot_be_observed_are_left_out_with_a_warning_too() {
    let folder = Folder::with(OWN, &[]);
    let config = resolve(&folder, |_| {}).unwrap();
    assert_eq!(signals(&config), [Signal::MemoryAvailable]);
    assert_eq!(config.warnings.len(), 4, "{:?}", config.warnings);
    let with_nodefs = resolve(&folder, |given| given.nodefs = Some("/".into())).unwrap();
    assert_eq!(
        signals(&with_nodefs),
        [Signal::MemoryAvailable, Signal::NodeFsInodesFree]
    );
}

#[test]
fn a_lone_flag_is_not_blamed_for_the_kubelets_defaults() {
    let given = HostFlags {
        root: Some("/sys/fs/cgroup/a".into()),
        eviction: EvictionFlags {
            hard: Some("memory.available<1Gi".into()),
            ..EvictionFlags::default()
        },
        ..HostFlags::default()
    };
    assert_eq!(HostConfig::resolve(&given).unwrap().warnings, []);
}
