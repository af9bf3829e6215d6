//! What we add to the kubelet's policy: only in our own kind of file, only when asked for.

use super::{Folder, KUBELET, OWN};
use crate::config::{EvictionFlags, HostConfig, HostFlags};
use crate::model::Span;
use crate::policy::additions::Additions;
use crate::policy::additions::memory_figure::MemoryFigure;
use crate::policy::additions::victim_size::MinVictimSize;

/// Every one of them.
pub(super) const ALL: &str = "reclaimAwareMemory: true\nswapAwareMemory: true\nevictionCoolDown: 1m30s\n\
    maxEvictionsPerHour: 6\nminimumMemoryStallPercent: 2.5\nmaximumDyingCgroups: 1000\n\
    minimumVictimSize:\n  memory: 64Mi\n  disk: 1Gi\n  inodes: \"1000\"\n  processes: \"10\"\n\
    protectedNamespaces: [kube-system, monitoring]\nprotectedLabels: [keep, tier=db]\nhonorAnnotations: true\n";

fn none() -> EvictionFlags {
    EvictionFlags::default()
}

#[test]
fn without_a_word_the_policy_is_the_kubelets() {
    for head in [OWN, KUBELET] {
        let effective = Folder::with(head, &[]).load(&none()).unwrap();
        assert_eq!(effective.additions, Additions::default());
        let figure = effective.addition_settings.memory_figure();
        assert_eq!(figure, MemoryFigure::KUBELET);
    }
}

#[test]
fn every_key_reaches_the_policy_and_says_where_it_stands() {
    let folder = Folder::with(&format!("{OWN}{ALL}"), &[]);
    let effective = folder.load(&none()).unwrap();
    let figure = effective.addition_settings.memory_figure();
    assert!(figure.with_reclaimable_cache && figure.with_free_swap);
    let additions = effective.additions;
    assert_eq!(additions.cool_down, Some(Span::from_secs(90)));
    assert_eq!(additions.max_per_hour, Some(6));
    assert_eq!(additions.min_stall_percent, Some(2.5));
    assert_eq!(additions.max_dying_cgroups, Some(1_000));
    let least = MinVictimSize {
        memory: Some(64 << 20),
        disk_bytes: Some(1 << 30),
        inodes: Some(1_000),
        processes: Some(10),
    };
    assert_eq!(additions.min_victim_size, least);
    assert!(additions.honor_annotations);
    let protection = additions.protection;
    assert_eq!(protection.namespaces.len(), 2);
    let labels: Vec<_> = protection.labels.iter().map(|rule| &*rule.key).collect();
    assert_eq!(labels, ["keep", "tier"]);
    for (key, value, place) in [
        ("reclaimAwareMemory", "true", "f.yaml:3"),
        ("evictionCoolDown", "1m30s", "f.yaml:5"),
        ("minimumMemoryStallPercent", "2.5", "f.yaml:7"),
        ("protectedLabels", "[\"keep\",\"tier=db\"]", "f.yaml:15"),
        ("honorAnnotations", "true", "f.yaml:16"),
    ] {
        let row = folder.row(key, &none());
        assert_eq!(row, (value.to_owned(), place.to_owned()), "{key}");
    }
}

#[test]
fn a_drop_in_wins_and_adds_single_resources() {
    let main = format!("{OWN}evictionCoolDown: 1m\nminimumVictimSize: {{memory: 64Mi}}\n");
    let over = format!("{OWN}evictionCoolDown: 0s\nminimumVictimSize: {{inodes: \"5\"}}\n");
    let folder = Folder::with(&main, &[("10.yaml", &over)]);
    let additions = folder.load(&none()).unwrap().additions;
    assert_eq!(additions.cool_down, None, "zero is off");
    let least = additions.min_victim_size;
    assert_eq!((least.memory, least.inodes), (Some(64 << 20), Some(5)));
}

#[test]
fn every_mistake_names_line_key_and_what_would_be_right() {
    for (body, said) in [
        (
            "reclaimAwareMemory: 1\n",
            "f.yaml:3: reclaimAwareMemory: expected true or false, found the number 1",
        ),
        (
            "evictionCoolDown: -1s\n",
            "f.yaml:3: evictionCoolDown: -1s must not be negative",
        ),
        (
            "evictionCoolDown: \"10\"\n",
            "f.yaml:3: evictionCoolDown: time: missing unit in duration",
        ),
        (
            "maxEvictionsPerHour: -1\n",
            "f.yaml:3: maxEvictionsPerHour: -1 must not be negative",
        ),
        (
            "maximumDyingCgroups: -5\n",
            "f.yaml:3: maximumDyingCgroups: -5 must not be negative",
        ),
        (
            "minimumMemoryStallPercent: 101\n",
            "f.yaml:3: minimumMemoryStallPercent: 101 must be between 0 and 100",
        ),
        (
            "minimumMemoryStallPercent: .nan\n",
            "f.yaml:3: minimumMemoryStallPercent: NaN must be between 0 and 100",
        ),
        (
            "minimumVictimSize: {memorry: 1Mi}\n",
            "f.yaml:3: minimumVictimSize: memorry: unknown resource, did you mean memory?; known are memory, disk, inodes, processes",
        ),
        (
            "minimumVictimSize:\n  memory: 1Qi\n",
            "f.yaml:4: minimumVictimSize: memory: ",
        ),
        (
            "minimumVictimSize: {memory: \"-1\"}\n",
            "f.yaml:3: minimumVictimSize: memory: -1 must not be negative",
        ),
        (
            "minimumVictimSize: {inodes: 5}\n",
            "f.yaml:3: minimumVictimSize: inodes: expected a text (put it in quotes)",
        ),
        (
            "protectedLabels: [\"=x\"]\n",
            "f.yaml:3: protectedLabels: \"=x\" is no label: write KEY or KEY=VALUE",
        ),
        (
            "reclaimAwareMemry: true\n",
            "f.yaml:3: reclaimAwareMemry: unknown key; did you mean reclaimAwareMemory?",
        ),
    ] {
        let folder = Folder::with(&format!("{OWN}{body}"), &[]);
        let error = folder.load(&none()).unwrap_err();
        assert!(
            error.starts_with(said),
            "{body:?}\n got {error}\nwant {said}"
        );
    }
}

#[test]
fn a_kubelets_file_cannot_have_them_and_is_told_so() {
    let folder = Folder::with(&format!("{KUBELET}reclaimAwareMemory: true\n"), &[]);
    let effective = folder.load(&none()).unwrap();
    assert_eq!(
        effective.addition_settings.memory_figure(),
        MemoryFigure::KUBELET
    );
    assert_eq!(
        folder.warnings(&none()),
        [
            "f.yaml:3: reclaimAwareMemory: only a file of kind EvictionConfiguration can set this: ignored here"
        ]
    );
}

#[test]
fn host_mode_takes_them_and_warns_of_what_only_pods_have() {
    let hard = "evictionHard: {memory.available: 1Gi}\n";
    let folder = Folder::with(&format!("{OWN}{hard}{ALL}"), &[]);
    let given = HostFlags {
        root: Some("/sys/fs/cgroup/a".into()),
        config: Some(folder.file()),
        ..HostFlags::default()
    };
    let config = HostConfig::resolve(&given).unwrap();
    assert!(config.memory_figure.with_reclaimable_cache);
    assert_eq!(config.additions.max_per_hour, Some(6));
    let warnings: Vec<_> = config
        .warnings
        .iter()
        .map(|w| folder.short(&w.to_string()))
        .collect();
    let ending = "has no effect in host mode, where nothing has namespaces, labels or annotations: use --workload NAME:protect";
    assert_eq!(
        warnings,
        [
            format!("f.yaml:15: protectedNamespaces: {ending}"),
            format!("f.yaml:16: protectedLabels: {ending}"),
            format!("f.yaml:17: honorAnnotations: {ending}"),
        ]
    );
}

#[test]
fn on_a_host_whoever_made_no_inode_is_never_an_inode_victim() {
    let sizes = |text: &str| {
        let folder = Folder::with(&format!("{OWN}{text}"), &[]);
        let additions = folder.load(&none()).unwrap().additions;
        additions.sparing().min_victim_size.inodes
    };
    assert_eq!(sizes(""), Some(1));
    assert_eq!(sizes("minimumVictimSize: {inodes: \"0\"}\n"), Some(1));
    assert_eq!(sizes("minimumVictimSize: {inodes: \"7\"}\n"), Some(7));
}
