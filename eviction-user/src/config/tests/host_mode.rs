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
    let config = resolve(&folder, |given| given.paths.nodefs = Some("/var".into())).unwrap();
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
        given.paths.nodefs = Some("/var".into());
        given.eviction.monitoring_interval = Some("100ms".into());
    });
    assert_eq!(faster.unwrap().interval, Duration::from_millis(100));
}

#[test]
fn what_our_own_file_or_a_flag_asks_for_in_vain_is_an_error() {
    let table = [
        (
            "evictionHard:\n  imagefs.available: 5%\n",
            "--imagefs is missing: f.yaml:4: evictionHard: imagefs.available needs a path",
        ),
        (
            "evictionHard:\n  nodefs.inodesFree: 5%\n",
            "--nodefs is missing: f.yaml:4: evictionHard: nodefs.inodesFree needs a path",
        ),
        (
            "evictionSoft: {nodefs.available: 1Gi}\nevictionSoftGracePeriod: {nodefs.available: 1m}\n",
            "--nodefs is missing: f.yaml:3: evictionSoft: nodefs.available needs a path",
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
        f.soft = Some("containerfs.available<1Gi".into());
        f.soft_grace = Some("containerfs.available=1m".into());
    });
    let error = resolve(&folder, |given| given.eviction = soft).unwrap_err();
    assert!(
        error.starts_with("--containerfs is missing: --eviction-soft: containerfs.available needs"),
        "{error}"
    );
}

#[test]
fn all_nine_signals_are_taken_hard_and_soft() {
    let names = Signal::ALL.map(Signal::name);
    let map = |value: &str| names.map(|name| format!("  {name}: {value}\n")).concat();
    let body = format!(
        "evictionHard:\n{}evictionSoft:\n{}evictionSoftGracePeriod:\n{}",
        map("10Mi"),
        map("20Mi"),
        map("30s")
    );
    let folder = Folder::with(&format!("{OWN}{body}"), &[]);
    let config = resolve(&folder, |given| {
        let path = Some("/".into());
        given.paths.nodefs.clone_from(&path);
        given.paths.imagefs.clone_from(&path);
        given.paths.containerfs = path;
    });
    let config = config.unwrap();
    assert_eq!(config.warnings, []);
    for signal in Signal::ALL {
        let graces: Vec<_> = config
            .thresholds
            .iter()
            .filter(|t| t.signal == signal)
            .collect();
        assert_eq!(graces.len(), 2, "{signal}");
        assert!(graces[0].is_hard() && !graces[1].is_hard(), "{signal}");
    }
}

#[test]
fn what_a_kubelets_file_asks_for_in_vain_is_left_out_with_a_warning() {
    let body = "evictionHard:\n  memory.available: 1Gi\n  nodefs.available: 10%\n  nodefs.inodesFree: 5%\n  \
        imagefs.available: 15%\n  imagefs.inodesFree: 5%\n\
        evictionSoft: {memory.available: 2Gi}\nevictionSoftGracePeriod: {memory.available: 1m}\n";
    let folder = Folder::with(&format!("{KUBELET}{body}"), &[]);
    let config = resolve(&folder, |_| {}).unwrap();
    assert_eq!(
        signals(&config),
        [Signal::MemoryAvailable, Signal::MemoryAvailable]
    );
    let warnings: Vec<_> = config
        .warnings
        .iter()
        .map(|w| folder.short(&w.to_string()))
        .collect();
    let path = "a path on the file system to watch: ignored";
    assert_eq!(
        warnings,
        [
            format!("f.yaml:5: evictionHard: nodefs.available: needs --nodefs, {path}"),
            format!("f.yaml:6: evictionHard: nodefs.inodesFree: needs --nodefs, {path}"),
            format!("f.yaml:7: evictionHard: imagefs.available: needs --imagefs, {path}"),
            format!("f.yaml:8: evictionHard: imagefs.inodesFree: needs --imagefs, {path}"),
        ]
    );
}

#[test]
fn defaults_that_cannot_be_observed_are_left_out_with_a_warning_too() {
    let folder = Folder::with(OWN, &[]);
    let config = resolve(&folder, |_| {}).unwrap();
    assert_eq!(signals(&config), [Signal::MemoryAvailable]);
    assert_eq!(config.warnings.len(), 4, "{:?}", config.warnings);
    let with_nodefs = resolve(&folder, |given| given.paths.nodefs = Some("/".into())).unwrap();
    assert_eq!(
        signals(&with_nodefs),
        [
            Signal::MemoryAvailable,
            Signal::NodeFsAvailable,
            Signal::NodeFsInodesFree
        ]
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
