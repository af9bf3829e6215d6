//! Lives of an engine, at random: thresholds that are crossed often, few pods, outcomes of all kinds.

use crate::model::{
    FsLayout, FsStats, Limit, MemoryStats, ObservedPod, Pod, PodStats, Quantity, Signal, Snapshot,
    Span, Summary, SystemContainer, Threshold, Timestamp, Uid,
};
use crate::policy::{EngineConfig, Input};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const SIGNALS: [Signal; 4] = [
    Signal::MemoryAvailable,
    Signal::AllocatableMemoryAvailable,
    Signal::NodeFsAvailable,
    Signal::NodeFsInodesFree,
];

/// A configuration, and what an engine with it is told at which times.
pub(super) fn life() -> impl Strategy<Value = (EngineConfig, Vec<(Timestamp, Input)>)> {
    let step = (0_i64..40_000, input());
    (config(), vec(step, 1..40)).prop_map(|(config, steps)| {
        let mut now = 0;
        let timed = steps.into_iter().map(|(after, input)| {
            now += after;
            (Timestamp::from_millis(now), input)
        });
        (config, timed.collect())
    })
}

fn config() -> impl Strategy<Value = EngineConfig> {
    let additions = (
        proptest::option::of(0_i64..120),
        proptest::option::of(0_u32..4),
        proptest::option::of(0.0_f32..50.0),
    );
    (vec(threshold(), 1..5), any::<bool>(), additions).prop_map(
        |(thresholds, isolation, (cool_down, cap, stall))| {
            let mut config = EngineConfig::with_thresholds(thresholds);
            config.settings.local_storage_isolation = isolation;
            config.additions.cool_down = cool_down.map(Span::from_secs);
            config.additions.max_per_hour = cap;
            config.additions.min_stall_percent = stall;
            config
        },
    )
}

fn threshold() -> impl Strategy<Value = Threshold> {
    let signal = prop::sample::select(SIGNALS.to_vec());
    (signal, limit(), 0_i64..60, proptest::option::of(limit())).prop_map(
        |(signal, limit, grace, min_reclaim)| Threshold {
            min_reclaim,
            ..Threshold::soft(signal, limit, Span::from_secs(grace))
        },
    )
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        (0_u64..1_000).prop_map(|mib| quantity(&format!("{mib}Mi"))),
        // Spellings and forms that a plain number would lose.
        prop::sample::select(vec![
            "1e8",
            "104857600",
            "0.1Gi",
            "1234567890123456789012",
            "0.3"
        ])
        .prop_map(quantity),
        (0.0_f32..1.0).prop_map(Limit::Percentage),
        Just(Limit::Percentage(f32::NAN)),
    ]
}

fn quantity(text: &str) -> Limit {
    Limit::Quantity(text.parse::<Quantity>().unwrap())
}

fn input() -> impl Strategy<Value = Input> {
    let uid = || (0..6_usize).prop_map(uid);
    prop_oneof![
        8 => snapshot().prop_map(|snapshot| Input::Cycle(Arc::new(snapshot))),
        1 => any::<bool>().prop_map(|known| Input::SampleFailed {
            layout: known.then(FsLayout::default),
        }),
        2 => proptest::option::of(summary()).prop_map(|s| Input::Reclaimed(s.map(Arc::new))),
        3 => uid().prop_map(|uid| Input::Evicted { uid }),
        2 => (uid(), proptest::option::of(0i64..100)).prop_map(|(uid, again)| Input::EvictionFailed {
            uid,
            again: again.map(Span::from_secs),
        }),
        1 => Just(Input::CleanupTimeout),
        1 => any::<bool>().prop_map(|dedicated_imagefs| Input::Relaid {
            layout: FsLayout {
                dedicated_imagefs,
                split_containerfs: false,
            },
        }),
    ]
}

fn uid(number: usize) -> Uid {
    Uid::new(format!("pod-{number}"))
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let known = prop::bool::weighted(0.9);
    (summary(), vec(pod(), 0..6), known).prop_map(|(summary, mut pods, known)| {
        for (number, observed) in pods.iter_mut().enumerate() {
            let pod = Pod {
                uid: uid(number),
                ..(*observed.pod).clone()
            };
            observed.pod = Arc::new(pod);
        }
        Snapshot {
            taken: Timestamp::from_nanos(0),
            summary,
            pods,
            layout: known.then(FsLayout::default),
        }
    })
}

fn pod() -> impl Strategy<Value = ObservedPod> {
    let stats = (0_u64..2_000, 0_u64..2_000).prop_map(|(memory, disk)| PodStats {
        memory: Some(memory_stats(memory, 0)),
        ephemeral_storage: Some(fs(disk)),
        ..PodStats::default()
    });
    (
        0_i64..1_000,
        proptest::option::of(any::<i32>()),
        proptest::option::of(stats),
    )
        .prop_map(|(request, priority, stats)| {
            let mut pod = Pod::workload(uid(0), "pod", request << 20);
            pod.priority = priority;
            ObservedPod {
                pod: Arc::new(pod),
                stats,
            }
        })
}

fn summary() -> impl Strategy<Value = Summary> {
    let stall = proptest::option::of(0.0_f32..100.0);
    (0_u64..1_000, 0_u64..1_000, 0_u64..1_000, stall).prop_map(|(node, group, disk, stall)| {
        Summary {
            memory: Some(memory_stats(1_000 - node, node)),
            nodefs: Some(fs(disk)),
            system_containers: vec![SystemContainer {
                name: SystemContainer::PODS.to_owned(),
                memory: Some(memory_stats(1_000 - group, group)),
            }],
            memory_stall_percent: stall,
            reclaimable_cache: Some(disk * MIB),
            dying_cgroups: Some(group),
            ..Summary::default()
        }
    })
}

fn memory_stats(used: u64, available: u64) -> MemoryStats {
    MemoryStats {
        time: None,
        available: Some(available * MIB),
        usage: None,
        working_set: Some(used * MIB),
    }
}

fn fs(available: u64) -> FsStats {
    FsStats {
        available: Some(available * MIB),
        capacity: Some(1_000 * MIB),
        used: Some(available * MIB),
        inodes_free: Some(available * 1_000),
        inodes: Some(1_000_000),
        inodes_used: Some(available * 1_000),
        ..FsStats::default()
    }
}

/// One look at a node with so much memory left, and one pod.
pub(super) fn one_look(available_mib: u64) -> super::super::Told {
    let pod = ObservedPod {
        pod: Arc::new(Pod::workload(uid(0), "pod", 0)),
        stats: Some(PodStats {
            memory: Some(memory_stats(500, 0)),
            ..PodStats::default()
        }),
    };
    let snapshot = Snapshot {
        taken: Timestamp::from_nanos(0),
        summary: Summary {
            memory: Some(memory_stats(1_000 - available_mib, available_mib)),
            ..Summary::default()
        },
        pods: vec![pod],
        layout: Some(FsLayout::default()),
    };
    super::super::Told {
        at: Timestamp::from_secs(1),
        wake: "test".into(),
        input: Input::Cycle(Arc::new(snapshot)),
    }
}
