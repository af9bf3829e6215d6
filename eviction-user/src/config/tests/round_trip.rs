//! What is imported from a kubelet says the same in our own words.

use super::{Folder, KUBELET, OWN};
use crate::config::{Effective, EvictionFlags};

/// Values without their origins, and without the switch for merging, which is done.
fn said(effective: &Effective) -> Vec<(String, String)> {
    let rows = effective.rows().into_iter();
    rows.filter(|row| row.key != "mergeDefaultEvictionSettings")
        .map(|row| (row.key, row.value))
        .collect()
}

#[test]
fn every_kind_of_file_says_the_same_after_an_import() {
    let full = "evictionHard: {memory.available: \"100\", nodefs.available: 10%, pid.available: 1e3}\n\
        evictionSoft: {memory.available: 1.5Gi}\nevictionSoftGracePeriod: {memory.available: 1m30s}\n\
        evictionMinimumReclaim: {nodefs.available: 0.5Gi}\nevictionMaxPodGracePeriod: -1\n\
        evictionPressureTransitionPeriod: 90s\nmergeDefaultEvictionSettings: true\n\
        enforceNodeAllocatable: [none]\nlocalStorageCapacityIsolation: false\n\
        kernelMemcgNotification: true\nimageGCHighThresholdPercent: 75\nimageGCLowThresholdPercent: 70\n\
        imageMinimumGCAge: 1m\nimageMaximumGCAge: 24h\ncgroupRoot: \"\"\ncgroupDriver: systemd\n\
        containerRuntimeEndpoint: \"unix:///run/crio/crio.sock\"\n\
        imageServiceEndpoint: \"unix:///run/images.sock\"\n";
    let quoted = full.replace("pid.available: 1e3", "pid.available: \"1e3\"");
    let mains = [
        KUBELET.to_owned(),
        format!("{KUBELET}{quoted}"),
        format!("{OWN}{quoted}monitoringInterval: 250ms\n"),
        format!("{OWN}{}", super::additions::ALL),
        "{\"kubeletconfig\":{\"evictionPressureTransitionPeriod\":\"0s\"}}".to_owned(),
        "{\"kubeletconfig\":{\"evictionHard\":{\"memory.available\":\"yes%\"}}}"
            .replace("yes%", "0%"),
    ];
    for main in mains {
        let before = Folder::with(&main, &[])
            .load(&EvictionFlags::default())
            .unwrap();
        let written = before.to_own_file().unwrap();
        let after = Folder::with(&written, &[]).load(&EvictionFlags::default());
        let after = after.unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(said(&after), said(&before), "{written}");
        assert_eq!(after.thresholds, before.thresholds, "{written}");
        assert_eq!(after.additions, before.additions, "{written}");
        assert_eq!(after.to_own_file().unwrap(), written);
    }
}

#[test]
fn the_file_is_short_and_names_its_kind() {
    let folder = Folder::with(
        &format!("{KUBELET}evictionHard: {{memory.available: 1Gi}}\n"),
        &[],
    );
    let written = folder
        .load(&EvictionFlags::default())
        .unwrap()
        .to_own_file()
        .unwrap();
    assert_eq!(
        written,
        format!("{OWN}evictionHard:\n  memory.available: 1Gi\n")
    );
}
