//! What is limited, and what it was found to hold. Pure.

use crate::model::{
    ContainerStats, FsLayout, FsStats, LocalStorageLimit, ObservedPod, Pod, PodStats, VolumeStats,
};
use std::path::PathBuf;

/// A workload that has limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    pub workload: String,
    pub parts: Vec<LimitedPart>,
}

/// One limit, and the directories that count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitedPart {
    pub limit: LocalStorageLimit,
    /// Bytes up to which it holds.
    pub most: u64,
    /// Writable layers of containers.
    pub layers: Vec<PathBuf>,
    /// All else.
    pub files: Vec<PathBuf>,
}

/// What they hold, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MeasuredPart {
    pub(super) limit: LocalStorageLimit,
    pub(super) most: u64,
    pub(super) layers: u64,
    pub(super) files: u64,
}

impl MeasuredPart {
    /// Bytes until it is broken; negative: it is. As the policy judges it: a layer on a disk of its own does not count for its
    /// container.
    pub(super) fn left(&self, layout: FsLayout) -> i64 {
        let is_container = matches!(self.limit, LocalStorageLimit::Container { .. });
        let layers = if is_container && layout.dedicated_imagefs {
            0
        } else {
            self.layers
        };
        let used = self.files.saturating_add(layers);
        i64::try_from(i128::from(self.most) - i128::from(used)).unwrap_or(i64::MAX)
    }
}

/// Puts it where the policy looks for it. What stands for all that the pod holds becomes less by as much, so that the ranking
/// counts nothing twice.
pub(super) fn tell(observed: &mut ObservedPod, parts: &[MeasuredPart]) {
    let Some(stats) = &mut observed.stats else {
        return;
    };
    for part in parts {
        match &part.limit {
            LocalStorageLimit::EmptyDir { volume } => {
                if is_ranked(&observed.pod, volume) {
                    take_files(stats, part.files);
                }
                stats.volumes.push(VolumeStats {
                    name: volume.clone(),
                    fs: used(part.files),
                });
            }
            LocalStorageLimit::Pod => {
                stats.ephemeral_storage = Some(used(part.files.saturating_add(part.layers)));
            }
            LocalStorageLimit::Container { name } => {
                take_files(stats, part.files);
                if let Some(rest) = unnamed(stats) {
                    take(&mut rest.rootfs, part.layers);
                }
                let container = container(stats, name);
                container.rootfs = Some(used(part.layers));
                container.logs = Some(used(part.files));
            }
        }
    }
}

/// Does the ranking count this volume?
fn is_ranked(pod: &Pod, volume: &str) -> bool {
    let named = pod.volumes.iter().find(|known| known.name == volume);
    named.is_some_and(|volume| volume.is_local())
}

fn container<'a>(stats: &'a mut PodStats, name: &str) -> &'a mut ContainerStats {
    let known = stats.containers.iter().position(|found| found.name == name);
    let at = known.unwrap_or_else(|| {
        stats.containers.push(ContainerStats {
            name: name.to_owned(),
            ..ContainerStats::default()
        });
        stats.containers.len() - 1
    });
    &mut stats.containers[at]
}

/// The one that stands for all that the pod holds (`host::held`).
fn unnamed(stats: &mut PodStats) -> Option<&mut ContainerStats> {
    stats.containers.iter_mut().find(|c| c.name.is_empty())
}

/// Volumes and logs: with one disk for all they are among the rest's layers.
fn take_files(stats: &mut PodStats, bytes: u64) {
    let are_apart = stats.disk.len() > 1;
    if let Some(rest) = unnamed(stats) {
        let from = if are_apart {
            &mut rest.logs
        } else {
            &mut rest.rootfs
        };
        take(from, bytes);
    }
}

fn take(from: &mut Option<FsStats>, bytes: u64) {
    if let Some(used) = from.as_mut().and_then(|fs| fs.used.as_mut()) {
        *used = used.saturating_sub(bytes);
    }
}

fn used(bytes: u64) -> FsStats {
    FsStats {
        used: Some(bytes),
        ..FsStats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::held::as_container;
    use super::*;
    use crate::model::{DiskBase, DiskUse, EmptyDir, Medium, Timestamp, Uid, Volume, VolumeSource};
    use std::sync::Arc;

    const APART: FsLayout = FsLayout {
        dedicated_imagefs: true,
        split_containerfs: false,
    };

    fn part(limit: LocalStorageLimit, layers: u64, files: u64) -> MeasuredPart {
        MeasuredPart {
            limit,
            most: 100,
            layers,
            files,
        }
    }

    fn container_limit() -> LocalStorageLimit {
        LocalStorageLimit::Container { name: "c".into() }
    }

    fn volume(name: &str) -> LocalStorageLimit {
        LocalStorageLimit::EmptyDir {
            volume: name.into(),
        }
    }

    fn on_disk(bytes: u64) -> DiskUse {
        DiskUse {
            device: 1,
            base: Some(DiskBase {
                bytes,
                inodes: 7,
                began: Timestamp::from_secs(1),
            }),
            grown_bytes: None,
            grown_inodes: None,
        }
    }

    fn pod(disk: Vec<DiskUse>) -> ObservedPod {
        let empty_dir = |name: &str, medium| Volume {
            name: name.into(),
            source: VolumeSource::EmptyDir(EmptyDir {
                medium,
                size_limit: None,
            }),
        };
        ObservedPod {
            pod: Arc::new(Pod {
                volumes: vec![
                    empty_dir("disk", Medium::Disk),
                    empty_dir("ram", Medium::Memory),
                ],
                ..Pod::new(Uid::new("u"), "default", "a")
            }),
            stats: Some(PodStats {
                containers: vec![as_container(String::new(), &disk)],
                disk,
                ..PodStats::default()
            }),
        }
    }

    #[test]
    fn a_layer_counts_for_its_container_where_it_lies_on_the_nodes_disk() {
        let left = |limit, layout| part(limit, 60, 45).left(layout);
        assert_eq!(left(container_limit(), FsLayout::default()), -5);
        assert_eq!(left(container_limit(), APART), 55);
        assert_eq!(left(LocalStorageLimit::Pod, APART), -5);
        assert_eq!(part(volume("disk"), 0, 100).left(APART), 0);
    }

    #[test]
    fn the_ranking_counts_nothing_twice_and_the_policy_finds_each_figure() {
        let parts = [
            part(volume("disk"), 0, 30),
            part(volume("ram"), 0, 40),
            part(LocalStorageLimit::Pod, 25, 60),
            part(container_limit(), 20, 5),
        ];
        for (disk, rest) in [
            (vec![on_disk(85)], (Some(0), Some(85 - 30 - 5 - 20))),
            (
                vec![on_disk(60), on_disk(25)],
                (Some(60 - 30 - 5), Some(25 - 20)),
            ),
        ] {
            let mut observed = pod(disk);
            tell(&mut observed, &parts);
            let stats = observed.stats.unwrap();
            let figures = |at: usize| {
                let of = |fs: &Option<FsStats>| fs.and_then(|fs| fs.used);
                let found = &stats.containers[at];
                (of(&found.logs), of(&found.rootfs))
            };
            assert_eq!(figures(0), rest, "what is left for the rest");
            assert_eq!(stats.containers[1].name, "c");
            assert_eq!(figures(1), (Some(5), Some(20)));
            let volumes = stats.volumes.iter().map(|v| (v.name.as_str(), v.fs.used));
            let volumes: Vec<_> = volumes.collect();
            assert_eq!(volumes, [("disk", Some(30)), ("ram", Some(40))]);
            assert_eq!(stats.ephemeral_storage, Some(used(85)));
        }
    }

    #[test]
    fn where_no_disk_is_ranked_only_the_limits_are_told() {
        let mut observed = pod(Vec::new());
        tell(&mut observed, &[part(volume("disk"), 0, 30)]);
        let stats = observed.stats.unwrap();
        assert_eq!(stats.containers[0], as_container(String::new(), &[]));
        assert_eq!(stats.volumes.len(), 1);
    }
}
