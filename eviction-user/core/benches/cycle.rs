//! What a decision costs: one engine, one fresh look at a full node under memory or disk pressure,
//! the ranking with every key of every candidate included. Goal: 110 pods in less than 200 us,
//! 1,000 pods in less than 2 ms.

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use eviction_core::model::{
    Action, Container, ContainerStats, FsLayout, FsStats, Limit, MemoryStats, ObservedPod, Pod,
    PodStats, Quantity, ResourceList, Resources, Signal, Snapshot, Summary, Threshold, Timestamp,
    Uid,
};
use eviction_core::policy::{Engine, EngineConfig, Input};

/// Containers of a pod.
const CONTAINERS: u64 = 3;

const fn mib(count: u64) -> u64 {
    count << 20
}

fn container(number: u64, seed: u64) -> (Container, ContainerStats) {
    let name = format!("container-{number}");
    let requests = ResourceList {
        ephemeral_storage: Some(Quantity::binary(mib(seed % 7) as i64)),
        ..ResourceList::of_memory(mib(seed % 11) as i64)
    };
    let fs = |used| {
        Some(FsStats {
            used: Some(used),
            inodes_used: Some(used >> 12),
            ..FsStats::default()
        })
    };
    let working_set = Some(mib(seed % 13));
    let stats = ContainerStats {
        name: name.clone(),
        memory: Some(MemoryStats {
            working_set,
            ..MemoryStats::default()
        }),
        rootfs: fs(mib(seed % 17)),
        logs: fs(mib(seed % 19)),
    };
    (
        Container {
            name,
            resources: Resources {
                requests,
                ..Resources::default()
            },
            is_sidecar: false,
        },
        stats,
    )
}

fn pod(number: u64) -> ObservedPod {
    // Spread without a random generator: the same pods in every run.
    let seed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17;
    let (containers, stats): (Vec<_>, Vec<_>) =
        (0..CONTAINERS).map(|n| container(n, seed >> n)).unzip();
    let name = format!("pod-{number}");
    let pod = Pod {
        priority: Some((seed % 5) as i32 * 1_000),
        containers,
        ..Pod::new(Uid::new(name.as_str()), "default", name)
    };
    let working_set = stats
        .iter()
        .filter_map(|stats| stats.memory?.working_set)
        .sum();
    let memory = MemoryStats {
        working_set: Some(working_set),
        ..MemoryStats::default()
    };
    let stats = PodStats {
        memory: Some(memory),
        containers: stats,
        ..PodStats::default()
    };
    ObservedPod {
        pod: Arc::new(pod),
        stats: Some(stats),
    }
}

fn under_pressure(pods: u64) -> Arc<Snapshot> {
    let time = Some(Timestamp::from_secs(1));
    let low = FsStats {
        time,
        available: Some(50),
        capacity: Some(1_000),
        ..FsStats::default()
    };
    let summary = Summary {
        memory: Some(MemoryStats {
            time,
            available: Some(50),
            working_set: Some(950),
            ..MemoryStats::default()
        }),
        nodefs: Some(FsStats {
            inodes_free: Some(50),
            inodes: Some(1_000),
            ..low
        }),
        ..Summary::default()
    };
    let layout = Some(FsLayout {
        dedicated_imagefs: true,
        split_containerfs: false,
    });
    Arc::new(Snapshot {
        taken: Timestamp::from_secs(1),
        summary,
        pods: (0..pods).map(pod).collect(),
        layout,
    })
}

fn decide(mut engine: Engine, snapshot: &Arc<Snapshot>) -> Vec<Action> {
    let actions = engine
        .handle(Timestamp::from_secs(1), Input::Cycle(snapshot.clone()))
        .unwrap_or_default();
    assert!(
        matches!(actions.last(), Some(Action::Evict(_))),
        "somebody goes"
    );
    actions
}

fn cycle(criterion: &mut Criterion) {
    for (name, signal) in [
        ("memory", Signal::MemoryAvailable),
        ("inodes", Signal::NodeFsInodesFree),
    ] {
        let threshold = Threshold::hard(signal, Limit::Percentage(0.1));
        let engine = Engine::new(EngineConfig::with_thresholds(vec![threshold]));
        let mut group = criterion.benchmark_group(name);
        for pods in [110, 1_000] {
            let snapshot = under_pressure(pods);
            group.bench_with_input(
                BenchmarkId::from_parameter(pods),
                &snapshot,
                |bencher, snapshot| {
                    bencher.iter_batched(
                        || engine.clone(),
                        |engine| decide(engine, black_box(snapshot)),
                        BatchSize::SmallInput,
                    );
                },
            );
        }
        group.finish();
    }
}

criterion_group!(benches, cycle);
criterion_main!(benches);
