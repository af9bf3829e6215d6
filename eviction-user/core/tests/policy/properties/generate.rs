//! Nodes and pods of any shape, edge values included.

use std::sync::Arc;

use eviction_core::model::{
    Container, ContainerStats, EmptyDir, FsLayout, FsStats, Limit, MemoryStats, ObservedPod, Pod,
    PodStats, Quantity, ResourceList, Resources, Rlimit, Signal, Snapshot, Span, Summary,
    SystemContainer, Threshold, Timestamp, Uid, Volume, VolumeSource, VolumeStats, annotation,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// Small numbers, so that ties and crossings happen, and the ends of the range.
pub(super) fn amount() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0u64..40, 1 => any::<u64>(), 1 => select(vec![u64::MAX, 1 << 63, (1 << 63) - 1])]
}

pub(super) fn signed_amount() -> impl Strategy<Value = i64> {
    prop_oneof![6 => -5i64..40, 1 => any::<i64>(), 1 => select(vec![i64::MAX, i64::MIN])]
}

fn maybe(amounts: impl Strategy<Value = u64>) -> impl Strategy<Value = Option<u64>> {
    option::weighted(0.9, amounts)
}

/// Instants within the range that can be shifted, or none.
fn time() -> impl Strategy<Value = Option<Timestamp>> {
    option::weighted(0.9, (0i64..1_000).prop_map(Timestamp::from_secs))
}

fn memory_stats() -> BoxedStrategy<MemoryStats> {
    (time(), maybe(amount()), maybe(amount()), maybe(amount()))
        .prop_map(|(time, available, usage, working_set)| MemoryStats {
            time,
            available,
            usage,
            working_set,
        })
        .boxed()
}

fn fs_stats() -> BoxedStrategy<FsStats> {
    (
        time(),
        [maybe(amount()), maybe(amount()), maybe(amount())],
        [maybe(amount()), maybe(amount()), maybe(amount())],
    )
        .prop_map(
            |(time, [available, capacity, used], [inodes_free, inodes, inodes_used])| FsStats {
                time,
                available,
                capacity,
                used,
                inodes_free,
                inodes,
                inodes_used,
            },
        )
        .boxed()
}

fn quantity() -> BoxedStrategy<Quantity> {
    prop_oneof![
        4 => signed_amount().prop_map(Quantity::binary),
        1 => select(vec!["1500m", "1n", "8205114663092462890T", "1e2000000000", "-3Pi", "0"])
            .prop_map(|text| text.parse().unwrap()),
    ]
    .boxed()
}

fn resource_list() -> BoxedStrategy<ResourceList> {
    [
        option::of(quantity()),
        option::of(quantity()),
        option::of(quantity()),
    ]
    .prop_map(|[cpu, memory, ephemeral_storage]| ResourceList {
        cpu,
        memory,
        ephemeral_storage,
        has_hugepages: false,
    })
    .boxed()
}

fn resources() -> impl Strategy<Value = Resources> {
    (resource_list(), resource_list()).prop_map(|(requests, limits)| Resources { requests, limits })
}

fn container() -> BoxedStrategy<Container> {
    (select(vec!["a", "b", "c"]), resources(), any::<bool>())
        .prop_map(|(name, resources, is_sidecar)| Container {
            name: name.to_owned(),
            resources,
            is_sidecar,
        })
        .boxed()
}

fn volume() -> BoxedStrategy<Volume> {
    let dir = option::of(quantity()).prop_map(|size_limit| {
        VolumeSource::EmptyDir(EmptyDir {
            size_limit,
            ..EmptyDir::default()
        })
    });
    let source = prop_oneof![dir, Just(VolumeSource::HostPath), Just(VolumeSource::Other)];
    (select(vec!["v", "w"]), source)
        .prop_map(|(name, source)| Volume {
            name: name.to_owned(),
            source,
        })
        .boxed()
}

/// A kind of pod that nobody may evict, or none of them.
fn spared(pod: &mut Pod, kind: u8) {
    match kind {
        0 => drop(
            pod.annotations
                .insert(annotation::CONFIG_MIRROR.to_owned(), String::new()),
        ),
        1 => drop(
            pod.annotations
                .insert(annotation::CONFIG_SOURCE.to_owned(), "file".to_owned()),
        ),
        2 => pod.priority = Some(i32::MAX),
        _ => {}
    }
}

fn pod() -> BoxedStrategy<Pod> {
    let priority = option::of(prop_oneof![4 => -2i32..3, 1 => any::<i32>()]);
    let containers = [vec(container(), 0..3), vec(container(), 0..2)];
    (
        priority,
        containers,
        resource_list(),
        option::weighted(0.2, resources()),
        vec(volume(), 0..3),
        0u8..12,
    )
        .prop_map(
            |(priority, [containers, init_containers], overhead, resources, volumes, kind)| {
                let mut pod = Pod {
                    priority,
                    overhead,
                    resources,
                    containers,
                    init_containers,
                    volumes,
                    ..Pod::new(Uid::new(""), "default", "")
                };
                spared(&mut pod, kind);
                pod
            },
        )
        .boxed()
}

fn container_stats() -> BoxedStrategy<ContainerStats> {
    (
        select(vec!["a", "b", "z"]),
        option::of(memory_stats()),
        option::of(fs_stats()),
        option::of(fs_stats()),
    )
        .prop_map(|(name, memory, rootfs, logs)| ContainerStats {
            name: name.to_owned(),
            memory,
            rootfs,
            logs,
        })
        .boxed()
}

fn pod_stats() -> BoxedStrategy<PodStats> {
    let volume = (select(vec!["v", "w"]), fs_stats()).prop_map(|(name, fs)| VolumeStats {
        name: name.to_owned(),
        fs,
    });
    (
        option::weighted(0.9, memory_stats()),
        maybe(amount()),
        option::of(fs_stats()),
        vec(container_stats(), 0..3),
        vec(volume, 0..3),
    )
        .prop_map(
            |(memory, process_count, ephemeral_storage, containers, volumes)| PodStats {
                memory,
                process_count,
                ephemeral_storage,
                containers,
                volumes,
                disk: Vec::new(),
            },
        )
        .boxed()
}

/// Pods with uids of their position.
pub(super) fn pods() -> BoxedStrategy<Vec<ObservedPod>> {
    vec((pod(), option::weighted(0.9, pod_stats())), 0..9)
        .prop_map(|pods| {
            pods.into_iter()
                .enumerate()
                .map(|(position, (pod, stats))| {
                    let uid = Uid::new(position.to_string());
                    ObservedPod {
                        pod: Arc::new(Pod {
                            name: uid.to_string(),
                            uid,
                            ..pod
                        }),
                        stats,
                    }
                })
                .collect()
        })
        .boxed()
}

pub(super) fn layout() -> impl Strategy<Value = FsLayout> {
    any::<[bool; 2]>().prop_map(|[dedicated_imagefs, split_containerfs]| FsLayout {
        dedicated_imagefs,
        split_containerfs,
    })
}

pub(super) fn signal() -> impl Strategy<Value = Signal> {
    select(Signal::ALL.to_vec())
}

fn summary() -> BoxedStrategy<Summary> {
    let rlimit = (
        time(),
        option::of(signed_amount()),
        option::of(signed_amount()),
    )
        .prop_map(|(time, max_pid, running)| Rlimit {
            time,
            max_pid,
            running,
        });
    (
        [
            option::weighted(0.9, memory_stats()),
            option::of(memory_stats()),
        ],
        [
            option::of(fs_stats()),
            option::of(fs_stats()),
            option::of(fs_stats()),
        ],
        option::of(rlimit),
        [(); 4].map(|()| option::of(amount())),
    )
        .prop_map(
            |(
                [memory, allocatable],
                [nodefs, imagefs, containerfs],
                rlimit,
                [
                    reclaimable_cache,
                    pods_reclaimable_cache,
                    swap_free,
                    dying_cgroups,
                ],
            )| {
                let name = SystemContainer::PODS.to_owned();
                Summary {
                    memory,
                    nodefs,
                    imagefs,
                    containerfs,
                    rlimit,
                    system_containers: vec![SystemContainer {
                        name,
                        memory: allocatable,
                    }],
                    memory_stall_percent: None,
                    reclaimable_cache,
                    pods_reclaimable_cache,
                    swap_free,
                    dying_cgroups,
                }
            },
        )
        .boxed()
}

pub(super) fn snapshot() -> BoxedStrategy<Snapshot> {
    (summary(), pods(), option::weighted(0.95, layout()))
        .prop_map(|(summary, pods, layout)| Snapshot {
            taken: Timestamp::from_nanos(0),
            summary,
            pods,
            layout,
        })
        .boxed()
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![
        3 => quantity().prop_map(Limit::Quantity),
        2 => select(vec![0.0f32, 0.1, 0.5, 1.0, 1.5, f32::NAN, f32::INFINITY]).prop_map(Limit::Percentage),
    ]
}

pub(super) fn thresholds() -> BoxedStrategy<Vec<Threshold>> {
    let grace = select(vec![0i64, 0, 5, 60]).prop_map(Span::from_secs);
    let threshold = (signal(), limit(), grace, option::of(limit())).prop_map(
        |(signal, limit, grace, min_reclaim)| Threshold {
            min_reclaim,
            ..Threshold::soft(signal, limit, grace)
        },
    );
    vec(threshold, 0..6).boxed()
}
