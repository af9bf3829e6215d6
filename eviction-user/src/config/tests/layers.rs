//! What wins over what, and that every value remembers where it came from.

use super::{Folder, KUBELET, OWN, flags};
use crate::config::{Effective, EvictionFlags};
use crate::model::Signal;

fn none() -> EvictionFlags {
    EvictionFlags::default()
}

#[test]
fn without_a_file_all_is_default() {
    let effective = Effective::load(None, &none()).unwrap();
    assert!(effective.rows().iter().all(|row| row.source == "default"));
    assert_eq!(effective.warnings, []);
    let signals: Vec<_> = effective.thresholds.iter().map(|t| t.signal).collect();
    assert_eq!(
        signals,
        [
            Signal::MemoryAvailable,
            Signal::NodeFsAvailable,
            Signal::NodeFsInodesFree,
            Signal::ImageFsAvailable,
            Signal::ImageFsInodesFree,
            Signal::AllocatableMemoryAvailable,
        ]
    );
}

#[test]
fn a_kubelets_file_is_taken_as_it_is() {
    let body = "maxPods: 110\nauthentication:\n  webhook: {enabled: true}\nclusterDNS: [10.0.0.10]\n\
        evictionHard:\n  memory.available: 500Mi\n  nodefs.available: 10%\n\
        evictionSoft: {memory.available: 1Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n\
        evictionMinimumReclaim:\n  nodefs.available: 5Gi\nevictionMaxPodGracePeriod: 60\n\
        evictionPressureTransitionPeriod: 1m\nmergeDefaultEvictionSettings: true\n\
        enforceNodeAllocatable: [pods, kube-reserved]\nlocalStorageCapacityIsolation: false\n\
        kernelMemcgNotification: true\nimageGCHighThresholdPercent: 75\nimageGCLowThresholdPercent: 70\n\
        imageMinimumGCAge: 1m\nimageMaximumGCAge: 24h\ncgroupRoot: /\ncgroupDriver: systemd\n\
        containerRuntimeEndpoint: unix:///run/crio/crio.sock\n";
    let folder = Folder::with(&format!("{KUBELET}{body}"), &[]);
    for (key, value, line) in [
        ("evictionHard.memory.available", "500Mi", "f.yaml:8"),
        ("evictionHard.nodefs.available", "10%", "f.yaml:9"),
        ("evictionHard.imagefs.available", "15%", "merged default"),
        ("evictionSoft.memory.available", "1Gi", "f.yaml:10"),
        (
            "evictionSoftGracePeriod.memory.available",
            "1m30s",
            "f.yaml:11",
        ),
        (
            "evictionMinimumReclaim.nodefs.available",
            "5Gi",
            "f.yaml:13",
        ),
        ("evictionMaxPodGracePeriod", "60", "f.yaml:14"),
        ("evictionPressureTransitionPeriod", "1m0s", "f.yaml:15"),
        ("mergeDefaultEvictionSettings", "true", "f.yaml:16"),
        ("enforceNodeAllocatable", "pods, kube-reserved", "f.yaml:17"),
        ("localStorageCapacityIsolation", "false", "f.yaml:18"),
        ("kernelMemcgNotification", "true", "f.yaml:19"),
        ("imageGCHighThresholdPercent", "75", "f.yaml:20"),
        ("imageGCLowThresholdPercent", "70", "f.yaml:21"),
        ("imageMinimumGCAge", "1m0s", "f.yaml:22"),
        ("imageMaximumGCAge", "24h0m0s", "f.yaml:23"),
        ("cgroupRoot", "/", "f.yaml:24"),
        ("cgroupDriver", "systemd", "f.yaml:25"),
        (
            "containerRuntimeEndpoint",
            "unix:///run/crio/crio.sock",
            "f.yaml:26",
        ),
        ("monitoringInterval", "10s", "default"),
    ] {
        assert_eq!(
            folder.row(key, &none()),
            (value.to_owned(), line.to_owned()),
            "{key}"
        );
    }
    assert_eq!(folder.warnings(&none()), [""; 0]);
}

#[test]
fn a_saved_configz_is_what_is_in_force_there() {
    let configz = "{\"kubeletconfig\":{\n\"evictionHard\":{\"memory.available\":\"100Mi\"},\n\
        \"evictionPressureTransitionPeriod\":\"0s\",\"maxPods\":110}}";
    let folder = Folder::with(configz, &[]);
    assert_eq!(
        folder.row("evictionHard.memory.available", &none()).1,
        "f.yaml:2"
    );
    assert_eq!(
        folder.row("evictionPressureTransitionPeriod", &none()),
        ("0s".to_owned(), "f.yaml:3".to_owned()),
        "0 by flag shows as 0 there"
    );
    // Empty maps and lists are left out of the answer; a default would be in it.
    let empty = Folder::with("{\"kubeletconfig\":{\"maxPods\":110}}", &[]);
    assert_eq!(empty.row("evictionHard", &none()).0, "none");
    assert_eq!(empty.load(&none()).unwrap().thresholds, []);
    assert_eq!(empty.row("enforceNodeAllocatable", &none()).0, "");
}

#[test]
fn case_42_a_partial_map_drops_the_defaults_unless_they_are_merged() {
    let body = "evictionHard:\n  memory.available: 1Gi\n";
    let partial = Folder::with(&format!("{KUBELET}{body}"), &[]);
    assert_eq!(partial.load(&none()).unwrap().hard.entries.len(), 1);
    let merge = Folder::with(
        &format!("{KUBELET}{body}mergeDefaultEvictionSettings: true\n"),
        &[],
    );
    assert_eq!(merge.load(&none()).unwrap().hard.entries.len(), 5);
    let by_flag = flags(|f| f.hard = Some("memory.available<2Gi".into()));
    assert_eq!(
        merge.load(&by_flag).unwrap().hard.entries.len(),
        1,
        "a flag replaces what was merged"
    );
}

#[test]
fn drop_ins_are_laid_over_the_file_by_name_and_flags_over_both() {
    let main = format!(
        "{OWN}evictionHard:\n  memory.available: 1Gi\n  nodefs.available: 10%\nevictionMaxPodGracePeriod: 10\n"
    );
    let first =
        format!("{OWN}evictionHard:\n  memory.available: 2Gi\nevictionMaxPodGracePeriod: 20\n");
    let second = format!("{OWN}evictionMaxPodGracePeriod: 30\nevictionHard:\n");
    let folder = Folder::with(&main, &[("20-b.conf", &second), ("10-a.yaml", &first)]);
    let row = |key: &str, flags: &EvictionFlags| {
        let (value, source) = folder.row(key, flags);
        format!("{value} by {source}")
    };
    assert_eq!(
        row("evictionHard.memory.available", &none()),
        "2Gi by f.yaml.d/10-a.yaml:4"
    );
    assert_eq!(
        row("evictionHard.nodefs.available", &none()),
        "10% by f.yaml:5"
    );
    assert_eq!(
        row("evictionMaxPodGracePeriod", &none()),
        "30 by f.yaml.d/20-b.conf:3"
    );
    let given = flags(|f| {
        f.hard = Some("pid.available<100".into());
        f.max_pod_grace = Some("40".into());
        f.transition_period = Some("0s".into());
        f.monitoring_interval = Some("1s".into());
    });
    assert_eq!(
        row("evictionHard.pid.available", &given),
        "100 by --eviction-hard"
    );
    assert_eq!(
        folder.load(&given).unwrap().hard.entries.len(),
        1,
        "the flag's map replaces"
    );
    assert_eq!(
        row("evictionMaxPodGracePeriod", &given),
        "40 by --eviction-max-pod-grace-period"
    );
    assert_eq!(
        row("evictionPressureTransitionPeriod", &given),
        "0s by --eviction-pressure-transition-period"
    );
    assert_eq!(
        row("monitoringInterval", &given),
        "1s by --monitoring-interval"
    );
}

#[test]
fn a_drop_in_over_a_file_without_hard_entries_keeps_the_defaults() {
    let over = format!("{KUBELET}evictionHard: {{memory.available: 2Gi}}\n");
    let folder = Folder::with(KUBELET, &[("a.conf", &over)]);
    assert_eq!(folder.load(&none()).unwrap().hard.entries.len(), 5);
    assert_eq!(folder.warnings(&none()), [""; 0]);
}

#[test]
fn zero_is_not_set_in_a_kubelets_file_but_zero_in_ours() {
    let body = "evictionPressureTransitionPeriod: 0s\n";
    let kubelets = Folder::with(&format!("{KUBELET}{body}"), &[]);
    let ours = Folder::with(&format!("{OWN}{body}"), &[]);
    let key = "evictionPressureTransitionPeriod";
    assert_eq!(
        kubelets.row(key, &none()),
        ("5m0s".to_owned(), "default".to_owned())
    );
    assert_eq!(
        ours.row(key, &none()),
        ("0s".to_owned(), "f.yaml:3".to_owned())
    );
}
