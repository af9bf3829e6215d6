//! Every warning, and that a sound file has none.

use super::{Folder, KUBELET, OWN, flags};
use crate::config::{Effective, EvictionFlags};

/// All five defaults spelled out, so that none is dropped.
const ALL: &str = "evictionHard:\n  memory.available: 100Mi\n  nodefs.available: 10%\n  \
    nodefs.inodesFree: 5%\n  imagefs.available: 15%\n  imagefs.inodesFree: 5%\n";

#[test]
fn a_sound_file_has_none() {
    let body = "evictionSoft: {memory.available: 200Mi}\nevictionSoftGracePeriod: {memory.available: 1m}\n\
        evictionMinimumReclaim: {memory.available: 50Mi}\n";
    for head in [OWN, KUBELET] {
        let folder = Folder::with(&format!("{head}{ALL}{body}"), &[]);
        assert_eq!(folder.warnings(&EvictionFlags::default()), [""; 0]);
    }
}

#[test]
fn each_says_where_and_what_would_be_right() {
    let soft = |limit: &str| {
        format!(
            "evictionSoft: {{nodefs.available: {limit}}}\nevictionSoftGracePeriod: {{nodefs.available: 1m}}\n"
        )
    };
    let table: [(&str, &str, &str); 19] = [
        (
            OWN,
            &soft("10%"),
            "f.yaml:9: evictionSoft: nodefs.available: the soft limit 10% is at or below the hard limit 10%",
        ),
        (
            OWN,
            &soft("9%"),
            "f.yaml:9: evictionSoft: nodefs.available: the soft limit 9% is at or below",
        ),
        (
            OWN,
            &soft("0%"),
            "f.yaml:9: evictionSoft: nodefs.available: 0% switches this threshold off",
        ),
        (
            OWN,
            &soft("100%"),
            "f.yaml:9: evictionSoft: nodefs.available: 100% switches this threshold off",
        ),
        (
            OWN,
            &soft("0.0%"),
            "f.yaml:9: evictionSoft: nodefs.available: 0.0% is never met",
        ),
        (
            OWN,
            &soft("NaN%"),
            "f.yaml:9: evictionSoft: nodefs.available: NaN% is never met",
        ),
        (
            OWN,
            &soft("100.0%"),
            "f.yaml:9: evictionSoft: nodefs.available: 100.0% is met whenever anything at all is used",
        ),
        (
            OWN,
            "evictionSoftGracePeriod:\n  memory.available: 1m\n",
            "f.yaml:10: evictionSoftGracePeriod: memory.available: there is no soft threshold for it",
        ),
        (
            OWN,
            "evictionSoft: {pid.available: \"9\"}\nevictionSoftGracePeriod: {pid.available: 0s}\n",
            "f.yaml:10: evictionSoftGracePeriod: pid.available: a grace period of 0 makes the soft threshold a hard one",
        ),
        (
            OWN,
            "evictionMinimumReclaim: {pid.available: 1k}\n",
            "f.yaml:9: evictionMinimumReclaim: pid.available: there is no threshold for it",
        ),
        (
            OWN,
            "evictionMinimumReclaim: {nodefs.available: 90%}\n",
            "f.yaml:9: evictionMinimumReclaim: nodefs.available: limit and minimum reclaim are 100 % or more together",
        ),
        (
            OWN,
            "evictionPressureTransitionPeriod: 0s\n",
            "f.yaml:9: evictionPressureTransitionPeriod: 0s hides every node condition",
        ),
        (
            KUBELET,
            "evictionPressureTransitionPeriod: -1s\n",
            "f.yaml:9: evictionPressureTransitionPeriod: -1s hides every node condition",
        ),
        (
            KUBELET,
            "evictionPressureTransitionPeriod: 0s\n",
            "f.yaml:9: evictionPressureTransitionPeriod: 0 in a kubelet's file means its default, 5m0s",
        ),
        (
            KUBELET,
            "evictionMaxPodGracePeriod: -1\n",
            "f.yaml:9: evictionMaxPodGracePeriod: -1 does not leave the pods their own grace",
        ),
        (
            KUBELET,
            "evictionSoft: {containerfs.available: 20%}\nevictionSoftGracePeriod: {containerfs.available: 1m}\n",
            "f.yaml:9: evictionSoft: containerfs.available: has no effect: containerfs thresholds always follow",
        ),
        (
            KUBELET,
            "nodefs.available: 10%\n",
            "f.yaml:9: nodefs.available: is a signal, not a setting",
        ),
        (
            KUBELET,
            "evictionsoft: {}\n",
            "f.yaml:9: evictionsoft: is not known and ignored; did you mean evictionSoft?",
        ),
        (
            KUBELET,
            "evictionSoft:\n  nodefs.available: 5Gi\nevictionSoftGracePeriod:\n  nodefs.available: 1m\n  imagefs.available: 1m\n",
            "f.yaml:13: evictionSoftGracePeriod: imagefs.available: there is no soft threshold",
        ),
    ];
    for (head, body, said) in table {
        let folder = Folder::with(&format!("{head}{ALL}{body}"), &[]);
        let warnings = folder.warnings(&EvictionFlags::default());
        assert!(
            warnings.len() == 1 && warnings[0].starts_with(said),
            "{body}\n got {warnings:#?}\nwant {said}"
        );
    }
}

#[test]
fn case_42_a_partial_map_names_each_dropped_default() {
    let folder = Folder::with(
        &format!("{KUBELET}evictionHard:\n  memory.available: 1Gi\n"),
        &[],
    );
    let dropped =
        "nodefs.available<10%, nodefs.inodesFree<5%, imagefs.available<15%, imagefs.inodesFree<5%";
    assert_eq!(
        folder.warnings(&EvictionFlags::default()),
        [format!(
            "f.yaml:3: evictionHard: sets only a part, so these defaults are off: {dropped}; add them, or set mergeDefaultEvictionSettings: true"
        )]
    );
    let empty = Folder::with(&format!("{KUBELET}evictionHard: {{}}\n"), &[]);
    let warnings = empty.warnings(&EvictionFlags::default());
    assert!(
        warnings[0].contains("memory.available<100Mi, nodefs"),
        "{warnings:?}"
    );
}

#[test]
fn flags_are_warned_about_like_files() {
    let given = flags(|f| {
        f.hard = Some("memory.available<1Gi".into());
        f.transition_period = Some("0s".into());
        f.max_pod_grace = Some("-1".into());
    });
    let warnings = Effective::load(None, &given).unwrap().warnings;
    let texts: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    let starts = [
        "--eviction-hard: sets only a part",
        "--eviction-pressure-transition-period: 0s hides every node condition",
        "--eviction-max-pod-grace-period: -1 does not leave the pods their own grace",
    ];
    assert_eq!(texts.len(), starts.len(), "{texts:#?}");
    for (text, start) in texts.iter().zip(starts) {
        assert!(text.starts_with(start), "{text}");
    }
}

#[test]
fn a_drop_in_with_another_ending_is_named_and_a_hidden_one_is_not() {
    let folder = Folder::with(OWN, &[("10.yaml.bak", ""), (".20.swp", "")]);
    assert_eq!(
        folder.warnings(&EvictionFlags::default()),
        ["f.yaml.d/10.yaml.bak:1: is not read: drop-ins end in .yaml, .yml or .conf"]
    );
}
