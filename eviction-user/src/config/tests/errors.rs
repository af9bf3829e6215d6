//! Every error names file, line and key, or the flag.

use super::{Folder, KUBELET, OWN, flags};
use crate::config::{Effective, EvictionFlags};

fn check(table: &[(&str, &str, &str)]) {
    for (head, body, said) in table {
        let folder = Folder::with(&format!("{head}{body}"), &[]);
        let error = folder.load(&EvictionFlags::default()).unwrap_err();
        assert!(
            error.starts_with(said),
            "{body:?}\n got {error}\nwant {said}"
        );
    }
}

#[test]
fn files_that_are_no_configuration() {
    check(&[
        (
            "",
            "",
            "f.yaml:1: kind is missing: start the file with `apiVersion: eviction.dev/v1alpha1`",
        ),
        ("", "a: [1\n", "f.yaml:"),
        (
            "",
            "a: 1\nb: ]\n",
            "f.yaml:2: this is no valid YAML or JSON",
        ),
        (
            "",
            "- 1\n",
            "f.yaml:1: this is no configuration: expected a map of settings, found a list",
        ),
        ("", "evictionHard: {}\n", "f.yaml:1: kind is missing"),
        (
            "",
            "# x\nkind: Pod\napiVersion: v1\n",
            "f.yaml:2: kind: \"Pod\" is not known; known are EvictionConfiguration",
        ),
        (
            "",
            "kind: KubeletConfiguration\n",
            "f.yaml:1: apiVersion: \"\" is not known for kind KubeletConfiguration; write kubelet.config.k8s.io/v1beta1",
        ),
        (
            "",
            "kind: EvictionConfiguration\napiVersion: eviction.dev/v1\n",
            "f.yaml:2: apiVersion: \"eviction.dev/v1\" is not known for kind EvictionConfiguration; write eviction.dev/v1alpha1",
        ),
        (
            "",
            "kind: 3\n",
            "f.yaml:1: kind: expected a text, found the number 3",
        ),
        (
            "",
            "{\"kubeletconfig\": 3}",
            "f.yaml:1: this is no configuration: expected a map of settings, found the number 3",
        ),
    ]);
    let missing = Effective::load(Some("/no/such/file".as_ref()), &EvictionFlags::default());
    let error = missing.unwrap_err().to_string();
    assert!(error.starts_with("/no/such/file: No such file"), "{error}");
}

#[test]
fn our_own_kind_is_strict() {
    check(&[
        (
            OWN,
            "evictionHrad: {}\n",
            "f.yaml:3: evictionHrad: unknown key; did you mean evictionHard?",
        ),
        (OWN, "maxPods: 110\n", "f.yaml:3: maxPods: unknown key"),
        (
            OWN,
            "evictionHard:\n  memory.available: 1Gi\nmemory.available: 1Gi\n",
            "f.yaml:5: memory.available: unknown key",
        ),
        (
            OWN,
            "monitoringInterval: 10\n",
            "f.yaml:3: monitoringInterval: expected a duration as in \"5m0s\", found the number 10",
        ),
        (
            OWN,
            "monitoringInterval: 10ms\n",
            "f.yaml:3: monitoringInterval: 10ms: must be at least 100ms",
        ),
    ]);
}

#[test]
fn duplicate_and_mistyped_keys_are_errors_in_every_kind() {
    for head in [OWN, KUBELET] {
        check(&[
            (
                head,
                "evictionHard: {}\nevictionSoft: {}\nevictionHard: {}\n",
                "f.yaml:5: evictionHard: key \"evictionHard\" already set in map (first at line 3)",
            ),
            (
                head,
                "evictionHard:\n  memory.available: 1Gi\n  memory.available: 2Gi\n",
                "f.yaml:5: memory.available: key \"memory.available\" already set in map (first at line 4)",
            ),
            (
                head,
                "evictionHard: 1Gi\n",
                "f.yaml:3: evictionHard: expected a map of signals",
            ),
            (
                head,
                "evictionHard:\n  nodefs.inodesFree: 5\n",
                "f.yaml:4: evictionHard: nodefs.inodesFree: expected a text (put it in quotes), found the number 5",
            ),
            (
                head,
                "evictionMaxPodGracePeriod: 30s\n",
                "f.yaml:3: evictionMaxPodGracePeriod: expected a whole number, found the text \"30s\"",
            ),
            (
                head,
                "evictionMaxPodGracePeriod: 3000000000\n",
                "f.yaml:3: evictionMaxPodGracePeriod: \"3000000000\" is no whole number from",
            ),
            (
                head,
                "evictionPressureTransitionPeriod: 30\n",
                "f.yaml:3: evictionPressureTransitionPeriod: expected a duration",
            ),
            (
                head,
                "evictionPressureTransitionPeriod: \"30\"\n",
                "f.yaml:3: evictionPressureTransitionPeriod: time: missing unit in duration \"30\"",
            ),
            (
                head,
                "mergeDefaultEvictionSettings: \"true\"\n",
                "f.yaml:3: mergeDefaultEvictionSettings: expected true or false, found the text \"true\"",
            ),
            (
                head,
                "kernelMemcgNotification: 1\n",
                "f.yaml:3: kernelMemcgNotification: expected true or false",
            ),
            (
                head,
                "localStorageCapacityIsolation: []\n",
                "f.yaml:3: localStorageCapacityIsolation: expected true or false, found a list",
            ),
            (
                head,
                "enforceNodeAllocatable: pods\n",
                "f.yaml:3: enforceNodeAllocatable: expected a list of texts, found the text \"pods\"",
            ),
            (
                head,
                "enforceNodeAllocatable: [1]\n",
                "f.yaml:3: enforceNodeAllocatable: expected a list of texts",
            ),
            (
                head,
                "cgroupRoot: {}\n",
                "f.yaml:3: cgroupRoot: expected a text, found a map",
            ),
        ]);
    }
    check(&[(
        KUBELET,
        "authentication:\n  x509: {}\n  x509: {}\n",
        "f.yaml:5: x509: key \"x509\" already set in map (first at line 4)",
    )]);
}

#[test]
fn what_the_kubelets_parser_refuses_is_refused_in_its_words() {
    check(&[
        (
            KUBELET,
            "evictionHard:\n  memory.free: 1Gi\n",
            "f.yaml:4: evictionHard: memory.free: unsupported eviction signal memory.free",
        ),
        (
            KUBELET,
            "evictionHard:\n  memory.available: 1GiB\n",
            "f.yaml:4: evictionHard: memory.available: ",
        ),
        (
            KUBELET,
            "evictionHard:\n  memory.available:\n",
            "f.yaml:4: evictionHard: memory.available: quantities must match",
        ),
        (
            OWN,
            "evictionHard:\n  nodefs.available: 101%\n",
            "f.yaml:4: evictionHard: nodefs.available: eviction percentage threshold nodefs.available must be <= 100%: 101%",
        ),
        (
            OWN,
            "evictionHard:\n  nodefs.available: -1%\n",
            "f.yaml:4: evictionHard: nodefs.available: eviction percentage threshold nodefs.available must be >= 0%: -1%",
        ),
        (
            OWN,
            "evictionHard:\n  nodefs.available: \"0\"\n",
            "f.yaml:4: evictionHard: nodefs.available: eviction threshold nodefs.available must be positive: 0",
        ),
        (
            OWN,
            "evictionSoft:\n  memory.available: 1Gi\n",
            "f.yaml:4: evictionSoft: memory.available: grace period must be specified for the soft eviction threshold memory.available",
        ),
        (
            OWN,
            "evictionSoftGracePeriod:\n  memory.available: -1s\n",
            "f.yaml:4: evictionSoftGracePeriod: memory.available: invalid eviction grace period specified: -1s, must be a positive value",
        ),
        (
            OWN,
            "evictionSoftGracePeriod:\n  memory.available: \"30\"\n",
            "f.yaml:4: evictionSoftGracePeriod: memory.available: time: missing unit in duration \"30\"",
        ),
        (
            OWN,
            "evictionMinimumReclaim:\n  memory.free: 1Gi\n",
            "f.yaml:4: evictionMinimumReclaim: memory.free: unsupported eviction signal memory.free",
        ),
        (
            OWN,
            "evictionMinimumReclaim:\n  memory.available: 0%\n",
            "f.yaml:4: evictionMinimumReclaim: memory.available: eviction percentage minimum reclaim memory.available must be positive: 0%",
        ),
        (
            OWN,
            "evictionMinimumReclaim:\n  memory.available: \"-1\"\n",
            "f.yaml:4: evictionMinimumReclaim: memory.available: negative eviction minimum reclaim specified for memory.available",
        ),
    ]);
}

#[test]
fn other_values_out_of_range() {
    check(&[
        (
            KUBELET,
            "imageGCHighThresholdPercent: 101\n",
            "f.yaml:3: imageGCHighThresholdPercent: 101 must be between 0 and 100, inclusive",
        ),
        (
            KUBELET,
            "imageGCLowThresholdPercent: 85\n",
            "f.yaml:3: imageGCLowThresholdPercent: 85 must be less than imageGCHighThresholdPercent 85",
        ),
        (
            KUBELET,
            "imageGCHighThresholdPercent: 70\n",
            "f.yaml:3: imageGCHighThresholdPercent: 80 must be less than",
        ),
        (
            KUBELET,
            "imageMinimumGCAge: -1s\n",
            "f.yaml:3: imageMinimumGCAge: -1s must not be negative",
        ),
        (
            KUBELET,
            "enforceNodeAllocatable: [pod]\n",
            "f.yaml:3: enforceNodeAllocatable: \"pod\" is none of none, pods, ",
        ),
        (
            KUBELET,
            "enforceNodeAllocatable: [none, pods]\n",
            "f.yaml:3: enforceNodeAllocatable: \"none\" does not go with other entries",
        ),
        (
            KUBELET,
            "cgroupDriver: systemdd\n",
            "f.yaml:3: cgroupDriver: \"systemdd\" is none of cgroupfs, systemd",
        ),
    ]);
}

#[test]
fn flags_are_named_and_so_are_their_entries() {
    let text = |text: &str| Some(text.to_owned());
    let table: [(EvictionFlags, &str); 9] = [
        (
            flags(|f| f.hard = text("memory.available")),
            "--eviction-hard: malformed pair, expect string<string (at \"memory.available\")",
        ),
        (
            flags(|f| f.soft = text("memory.available<1Gi")),
            "--eviction-soft: memory.available: grace period must be specified",
        ),
        (
            flags(|f| f.soft_grace = text("memory.available<1m")),
            "--eviction-soft-grace-period: malformed pair, expect string=string",
        ),
        (
            flags(|f| f.soft_grace = text("memory.available=1")),
            "--eviction-soft-grace-period: memory.available: time: missing unit",
        ),
        (
            flags(|f| f.min_reclaim = text("memory.available=x")),
            "--eviction-minimum-reclaim: memory.available: quantities must match",
        ),
        (
            flags(|f| f.transition_period = text("5")),
            "--eviction-pressure-transition-period: time: missing unit in duration \"5\"",
        ),
        (
            flags(|f| f.max_pod_grace = text("5s")),
            "--eviction-max-pod-grace-period: \"5s\" is no whole number",
        ),
        (
            flags(|f| f.monitoring_interval = text("1ms")),
            "--monitoring-interval: 1ms: must be at least 100ms; write it as in 10s or 500ms",
        ),
        (
            flags(|f| f.hard = text("memory.available<x")),
            "--eviction-hard: memory.available: quantities must match",
        ),
    ];
    for (flags, said) in table {
        let error = Effective::load(None, &flags).unwrap_err().to_string();
        assert!(error.starts_with(said), "got {error}\nwant {said}");
    }
}

#[test]
fn a_drop_in_is_named_itself() {
    let bad = format!("{OWN}evictionHard:\n  memory.available: x\n");
    let folder = Folder::with(OWN, &[("10.yaml", &bad)]);
    let error = folder.load(&EvictionFlags::default()).unwrap_err();
    assert!(
        error.starts_with("f.yaml.d/10.yaml:4: evictionHard: memory.available: "),
        "{error}"
    );
    let folder = Folder::with(OWN, &[("10.yaml", KUBELET)]);
    let error = folder.load(&EvictionFlags::default()).unwrap_err();
    assert!(
        error.starts_with("f.yaml.d/10.yaml:1: kind: KubeletConfiguration does not fit"),
        "{error}"
    );
}
