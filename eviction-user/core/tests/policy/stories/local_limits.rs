//! The exact edges of pods' own limits on local storage.

use std::sync::Arc;

use eviction_core::model::{Container, EvictionCause, Resources};
use eviction_core::model::{
    ContainerStats, EmptyDir, FsLayout, FsStats, LocalStorageLimit, ObservedPod, Pod, PodStats,
    Quantity, ResourceList, Uid, Volume, VolumeSource, VolumeStats,
};
use eviction_core::policy::local_storage::{evictions, limits};

fn used(bytes: u64) -> FsStats {
    FsStats {
        used: Some(bytes),
        ..FsStats::default()
    }
}

/// A pod with an emptyDir and a container, each limited to ten bytes.
fn limited(volume: u64, layer: u64, whole: u64) -> ObservedPod {
    let ten = || Some(Quantity::binary(10));
    let dir = EmptyDir {
        size_limit: ten(),
        ..EmptyDir::default()
    };
    let limits = ResourceList {
        ephemeral_storage: ten(),
        ..ResourceList::default()
    };
    let container = Container {
        name: "c".to_owned(),
        resources: Resources {
            limits,
            ..Resources::default()
        },
        is_sidecar: false,
    };
    let pod = Pod {
        volumes: vec![Volume {
            name: "v".to_owned(),
            source: VolumeSource::EmptyDir(dir),
        }],
        containers: vec![container],
        ..Pod::new(Uid::new("a"), "default", "a")
    };
    let stats = PodStats {
        volumes: vec![VolumeStats {
            name: "v".to_owned(),
            fs: used(volume),
        }],
        containers: vec![ContainerStats {
            name: "c".to_owned(),
            rootfs: Some(used(layer)),
            ..ContainerStats::default()
        }],
        ephemeral_storage: Some(used(whole)),
        ..PodStats::default()
    };
    ObservedPod {
        pod: Arc::new(pod),
        stats: Some(stats),
    }
}

fn broken(pod: ObservedPod) -> Option<LocalStorageLimit> {
    let evictions = evictions(&[pod], FsLayout::default(), |_| false);
    evictions
        .into_iter()
        .next()
        .map(|eviction| match eviction.cause {
            EvictionCause::LocalStorage(limit) => limit,
            cause => panic!("{cause:?}"),
        })
}

#[test]
fn a_limit_is_broken_by_the_first_byte_above_it_and_not_by_the_last_below() {
    assert_eq!(broken(limited(10, 10, 10)), None);
    assert_eq!(
        broken(limited(11, 10, 10)),
        Some(LocalStorageLimit::EmptyDir {
            volume: "v".to_owned()
        })
    );
    assert_eq!(broken(limited(10, 10, 11)), Some(LocalStorageLimit::Pod));
    assert_eq!(
        broken(limited(10, 11, 10)),
        Some(LocalStorageLimit::Container {
            name: "c".to_owned()
        })
    );
}

#[test]
fn of_several_broken_limits_the_volume_is_named_before_the_pod_and_the_pod_before_the_container() {
    assert!(matches!(
        broken(limited(11, 11, 11)),
        Some(LocalStorageLimit::EmptyDir { .. })
    ));
    assert_eq!(broken(limited(10, 11, 11)), Some(LocalStorageLimit::Pod));
}

#[test]
fn the_limits_are_told_in_the_bytes_up_to_which_they_hold() {
    let names = [
        LocalStorageLimit::EmptyDir {
            volume: "v".to_owned(),
        },
        LocalStorageLimit::Pod,
        LocalStorageLimit::Container {
            name: "c".to_owned(),
        },
    ];
    let told = limits(&limited(0, 0, 0).pod);
    assert_eq!(told, names.clone().map(|name| (name, 10)));
    // Half a byte more holds no byte more; nothing is no limit for a volume and a container, and one for the pod.
    let with = |text: &str| {
        let quantity: Quantity = text.parse().unwrap();
        let mut pod = Pod::clone(&limited(0, 0, 0).pod);
        pod.containers[0].resources.limits.ephemeral_storage = Some(quantity.clone());
        pod.volumes[0].source = VolumeSource::EmptyDir(EmptyDir {
            size_limit: Some(quantity),
            ..EmptyDir::default()
        });
        limits(&pod)
    };
    assert_eq!(with("10500m"), names.map(|name| (name, 10)));
    assert_eq!(with("0"), [(LocalStorageLimit::Pod, 0)]);
    assert_eq!(limits(&Pod::new(Uid::new("b"), "default", "b")), []);
}
