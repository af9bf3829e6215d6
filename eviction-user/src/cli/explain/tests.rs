//! The report on a node made of plain numbers.

use super::report::Report;
use super::text;
use crate::model::{
    ContainerStats, DiskBase, DiskUse, FsLayout, FsStats, Limit, MemoryStats, ObservedPod, Pod,
    PodStats, Protection, Quantity, Signal, Snapshot, Summary, Threshold, Timestamp, Uid,
};
use crate::policy::{Engine, EngineConfig};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// 0: nobody counts.
fn counted(inodes: u64) -> Vec<DiskUse> {
    let base = DiskBase {
        bytes: 0,
        inodes,
        began: Timestamp::from_secs(0),
    };
    let found = DiskUse {
        device: 1,
        base: Some(base),
        grown_bytes: None,
        grown_inodes: None,
    };
    if inodes > 0 { vec![found] } else { Vec::new() }
}

fn pod(name: &str, used: Option<u64>, inodes: u64, change: impl FnOnce(&mut Pod)) -> ObservedPod {
    let mut pod = Pod::workload(Uid::new(name), name, 64 * MIB as i64);
    change(&mut pod);
    let stats = used.map(|used| PodStats {
        memory: Some(MemoryStats {
            working_set: Some(used * MIB),
            ..MemoryStats::default()
        }),
        containers: vec![ContainerStats {
            rootfs: Some(FsStats {
                inodes_used: Some(inodes),
                ..FsStats::default()
            }),
            ..ContainerStats::default()
        }],
        disk: counted(inodes),
        ..PodStats::default()
    });
    ObservedPod {
        pod: Arc::new(pod),
        stats,
    }
}

fn snapshot(pods: Vec<ObservedPod>) -> Snapshot {
    Snapshot {
        taken: Timestamp::from_secs(1),
        summary: Summary {
            memory: Some(MemoryStats {
                available: Some(300 * MIB),
                working_set: Some(700 * MIB),
                ..MemoryStats::default()
            }),
            nodefs: Some(FsStats {
                inodes: Some(1_000),
                inodes_free: Some(40),
                ..FsStats::default()
            }),
            memory_stall_percent: Some(2.5),
            dying_cgroups: Some(41),
            reclaimable_cache: Some(30 * MIB),
            ..Summary::default()
        },
        pods,
        layout: Some(FsLayout::default()),
    }
}

fn engine() -> Engine {
    let quantity = |text: &str| Limit::Quantity(text.parse::<Quantity>().unwrap());
    let mut config = EngineConfig::with_thresholds(vec![
        Threshold {
            min_reclaim: Some(quantity("50Mi")),
            ..Threshold::hard(Signal::MemoryAvailable, quantity("100Mi"))
        },
        Threshold::hard(Signal::AllocatableMemoryAvailable, quantity("1Gi")),
        Threshold::hard(Signal::NodeFsInodesFree, Limit::Percentage(0.05)),
    ]);
    config.additions.min_victim_size.inodes = Some(1);
    Engine::new(config)
}

fn report() -> Report {
    let pods = vec![
        pod("within", Some(32), 5, |_| {}),
        pod("ours", Some(900), 900, |pod| {
            pod.protection = Some(Protection::OwnPod)
        }),
        pod("important", Some(500), 0, |pod| pod.priority = Some(10)),
        pod("hog", Some(400), 70, |_| {}),
    ];
    let engine = engine();
    Report::new(&engine, &snapshot(pods), engine.thresholds())
}

#[test]
fn each_signal_has_its_figures_and_a_verdict() {
    let report = report();
    let [memory, allocatable, inodes] = report.signals.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(memory.limit, "100Mi (+50Mi once met)");
    assert_eq!(memory.left, Some((200 * MIB) as i64 + 1));
    assert_eq!(memory.met, Some(false));
    assert_eq!((allocatable.available, allocatable.met), (None, None));
    assert_eq!(
        (inodes.limit.as_str(), inodes.limit_amount),
        ("5%", Some(50))
    );
    assert_eq!((inodes.left, inodes.met), (Some(-9), Some(true)));
}

#[test]
fn case_27_every_candidate_is_there_with_its_keys_and_why_it_lost() {
    let report = report();
    let [memory, inodes] = report.rankings.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(
        memory.signals,
        ["memory.available", "allocatableMemory.available"]
    );
    assert_eq!((memory.victim.as_deref(), memory.met), (Some("hog"), false));
    let rows: Vec<_> = memory
        .candidates
        .iter()
        .map(|c| (c.name.as_str(), c.why_not.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("ours", Some("our own pod")),
            ("hog", None),
            ("important", Some("has a higher priority")),
            (
                "within",
                Some("within its request, the victim exceeds its own")
            ),
        ]
    );
    let hog = &memory.candidates[1];
    assert_eq!(hog.over_request, Some(i128::from(336 * MIB)));
    assert!(hog.exceeds_request == Some(true) && hog.victim);
    assert_eq!((inodes.victim.as_deref(), inodes.met), (Some("hog"), true));
    let uncounted = inodes.candidates.iter().find(|c| c.name == "important");
    let uncounted = uncounted.unwrap();
    assert_eq!((uncounted.usage, uncounted.exceeds_request), (None, None));
    assert_eq!(
        uncounted.why_not.as_deref(),
        Some("nobody counts what it uses")
    );
}

#[test]
fn the_page_fits_a_hundred_columns_and_says_it_all() {
    let mut report = report();
    report.missing = vec!["the inode use of important is unknown: ".to_owned() + &"x ".repeat(90)];
    let page = text::page(&report);
    assert!(
        page.lines().all(|line| line.chars().count() <= 100),
        "{page}"
    );
    for said in [
        "not measured",
        "MET",
        "memory: enough for now; hog would go first",
        "inodes: short; hog goes first",
        "our own pod",
        "has a higher",
        "unknown",
        "70 inodes scanned 1 s ago",
        "missing",
        "2.5 % of 10 s  30.0 MiB           unknown    41",
    ] {
        assert!(page.contains(said), "{said} is not in\n{page}");
    }
}

#[test]
fn without_workloads_it_says_so() {
    let engine = engine();
    let report = Report::new(&engine, &snapshot(Vec::new()), engine.thresholds());
    assert!(text::page(&report).contains("memory: enough for now; there are no workloads"));
}

#[test]
fn as_json_it_has_the_same_names_and_numbers() {
    let json = serde_json::to_string(&report()).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["signals"][0]["signal"], "memory.available");
    assert_eq!(json["node"]["dying_cgroups"], 41, "case 18");
    assert_eq!(json["node"]["swap_free"], serde_json::Value::Null);
    assert_eq!(json["rankings"][0]["resource"], "memory");
    assert_eq!(
        json["rankings"][0]["candidates"][1]["over_request"],
        336 * MIB
    );
    assert_eq!(
        json["rankings"][1]["candidates"][3]["usage"],
        serde_json::Value::Null
    );
}
