//! The file systems that are watched, by the kubelet's names for them.

use crate::model::{FsLayout, FsStats, Signal, Summary};
use crate::ports::{Moved, MovedSignal};
use crate::sys::filesystem::{FileSystem, FileSystemError, FileSystemUse};
use crate::sys::mount_table::MountTable;
use crate::sys::trust;
use std::path::Path;

#[derive(Debug, Clone, Default)]
pub struct FileSystems {
    pub nodefs: Option<FileSystem>,
    pub imagefs: Option<FileSystem>,
    pub containerfs: Option<FileSystem>,
}

impl FileSystems {
    /// `None` for a signal that is about no file system, and where none was named.
    pub fn of(&self, signal: Signal) -> Option<&FileSystem> {
        match signal {
            Signal::NodeFsAvailable | Signal::NodeFsInodesFree => self.nodefs.as_ref(),
            Signal::ImageFsAvailable | Signal::ImageFsInodesFree => self.imagefs.as_ref(),
            Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree => {
                self.containerfs.as_ref()
            }
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => {
                None
            }
        }
    }

    /// As the kubelet finds it, by comparing devices. What is not named lies where its neighbour does:
    /// images with the node's files, writable layers with the images.
    pub fn layout(&self) -> FsLayout {
        let device = |fs: &Option<FileSystem>| fs.as_ref().map(|fs| fs.device);
        let nodefs = device(&self.nodefs);
        let imagefs = device(&self.imagefs).or(nodefs);
        let containerfs = device(&self.containerfs).or(imagefs);
        FsLayout {
            dedicated_imagefs: imagefs != nodefs,
            split_containerfs: containerfs != imagefs,
        }
    }

    /// The devices on which a workload's use counts as its files on the node's file system (the kubelet's
    /// logs and volumes), and as its writable layers.
    pub(super) fn devices(&self) -> Devices {
        let device = |fs: &Option<FileSystem>| fs.as_ref().map(|fs| fs.device);
        let node = device(&self.nodefs);
        let layers = [&self.containerfs, &self.imagefs]
            .into_iter()
            .find_map(device);
        Devices {
            node,
            layers: layers.filter(|layers| node != Some(*layers)),
        }
    }

    /// One that cannot be read has no figures, and is no reason to be blind for all the rest.
    pub(super) fn read(&self, summary: &mut Summary) -> Unread {
        let mut unread = Unread::default();
        for (fs, stats) in [
            (&self.nodefs, &mut summary.nodefs),
            (&self.imagefs, &mut summary.imagefs),
            (&self.containerfs, &mut summary.containerfs),
        ] {
            *stats = match fs.as_ref().map(FileSystem::read) {
                Some(Ok(read)) => Some(fs_stats(&read)),
                Some(Err(FileSystemError::Another { .. })) => {
                    unread.moved = true;
                    None
                }
                Some(Err(e)) => {
                    unread.error.get_or_insert(e);
                    None
                }
                None => None,
            };
        }
        unread
    }

    fn named(&self) -> impl Iterator<Item = &FileSystem> {
        [&self.nodefs, &self.imagefs, &self.containerfs]
            .into_iter()
            .flatten()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named().next().is_none()
    }

    /// Takes in the mount table, so that nobody asks a file system that has just been mounted and may not answer.
    pub(super) fn check(&mut self, table: &MountTable) {
        let all = [&mut self.nodefs, &mut self.imagefs, &mut self.containerfs];
        all.into_iter().flatten().for_each(|fs| fs.check(table));
    }

    /// Paths that lead to another file system by now.
    pub(super) fn moved(&self) -> impl Iterator<Item = &Path> {
        self.named()
            .filter(|fs| has_moved(fs))
            .map(FileSystem::path)
    }

    /// Puts what a path leads to now in the place of what it led to.
    pub(super) fn replace(&mut self, found: &FileSystem) -> Option<Moved> {
        let mut followed = None::<Moved>;
        for (fs, signals) in [
            (&mut self.nodefs, NODEFS),
            (&mut self.imagefs, IMAGEFS),
            (&mut self.containerfs, CONTAINERFS),
        ] {
            let Some(fs) = fs.as_mut().filter(|fs| fs.path() == found.path()) else {
                continue;
            };
            if fs.is_same_as(found) {
                // Mounted once more, or for a moment only.
                fs.clone_from(found);
                continue;
            }
            let signals = signals.map(|signal| MovedSignal {
                signal,
                unfollowed: trust::unfollowed(found, signal)
                    .or_else(|| trust::without_figure(found, signal)),
            });
            match &mut followed {
                // Two names for one path.
                Some(known) => known.signals.extend(signals),
                None => {
                    followed = Some(Moved {
                        path: fs.path().to_owned(),
                        from: fs.place(),
                        to: found.place(),
                        signals: signals.into(),
                        layout: FsLayout::default(),
                    })
                }
            }
            fs.clone_from(found);
        }
        let layout = self.layout();
        followed.map(|moved| Moved { layout, ..moved })
    }
}

const NODEFS: [Signal; 2] = [Signal::NodeFsAvailable, Signal::NodeFsInodesFree];
const IMAGEFS: [Signal; 2] = [Signal::ImageFsAvailable, Signal::ImageFsInodesFree];
const CONTAINERFS: [Signal; 2] = [Signal::ContainerFsAvailable, Signal::ContainerFsInodesFree];

/// What a look could not read.
#[derive(Debug, Default)]
pub(super) struct Unread {
    /// Some path leads to another file system than before.
    pub(super) moved: bool,
    /// The first other reason.
    pub(super) error: Option<FileSystemError>,
}

fn has_moved(fs: &FileSystem) -> bool {
    matches!(fs.read(), Err(FileSystemError::Another { .. }))
}

/// Devices on which workloads' use is known by workload; each once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Devices {
    pub node: Option<u64>,
    pub layers: Option<u64>,
}

impl Devices {
    pub fn all(self) -> impl Iterator<Item = u64> {
        self.node.into_iter().chain(self.layers)
    }
}

fn fs_stats(read: &FileSystemUse) -> FsStats {
    // A file system that makes inodes as needed reports 0 of 0: no signal rather than pressure for ever.
    let fixed_table = read.inodes > 0;
    FsStats {
        time: Some(read.time),
        available: Some(read.available_bytes),
        capacity: Some(read.capacity_bytes),
        used: None,
        inodes_free: fixed_table.then_some(read.inodes_free),
        inodes: fixed_table.then_some(read.inodes),
        inodes_used: fixed_table.then(|| read.inodes - read.inodes_free),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By device; 0: not named.
    fn on(nodefs: u64, imagefs: u64, containerfs: u64) -> FileSystems {
        let fs = |device: u64| {
            let mut found = FileSystem::at("/".as_ref()).unwrap();
            found.device = device;
            (device > 0).then_some(found)
        };
        FileSystems {
            nodefs: fs(nodefs),
            imagefs: fs(imagefs),
            containerfs: fs(containerfs),
        }
    }

    #[test]
    fn the_layout_follows_from_which_devices_differ() {
        for (devices, dedicated_imagefs, split_containerfs) in [
            ((1, 0, 0), false, false),
            ((1, 1, 1), false, false),
            ((1, 2, 0), true, false),
            ((1, 2, 2), true, false),
            ((1, 2, 3), true, true),
            ((1, 2, 1), true, true),
            ((1, 0, 2), false, true),
            ((0, 2, 0), true, false),
            ((0, 0, 2), false, true),
            ((0, 0, 0), false, false),
        ] {
            let expected = FsLayout {
                dedicated_imagefs,
                split_containerfs,
            };
            let found = on(devices.0, devices.1, devices.2).layout();
            assert_eq!(found, expected, "{devices:?}");
        }
    }

    #[test]
    fn a_file_system_that_cannot_be_read_leaves_the_others_their_figures() {
        let mounted = tempfile::tempdir().unwrap();
        let all = FileSystems {
            nodefs: FileSystem::at(mounted.path()).ok(),
            imagefs: FileSystem::at("/".as_ref()).ok(),
            containerfs: None,
        };
        mounted.close().unwrap();
        let mut summary = Summary::default();
        let unread = all.read(&mut summary);
        let error = unread.error.unwrap().to_string();
        assert!(error.contains("cannot look at") && !unread.moved, "{error}");
        assert!(summary.nodefs.is_none() && summary.imagefs.is_some());
    }

    #[test]
    fn use_counts_once_where_two_names_mean_the_same_device() {
        let devices = |fs: FileSystems| (fs.devices().node, fs.devices().layers);
        assert_eq!(devices(on(1, 1, 1)), (Some(1), None));
        assert_eq!(devices(on(1, 2, 0)), (Some(1), Some(2)));
        assert_eq!(devices(on(1, 2, 3)), (Some(1), Some(3)));
        assert_eq!(devices(on(0, 2, 0)), (None, Some(2)));
    }

    #[test]
    fn what_has_moved_has_no_figures_until_it_is_followed_and_is_told_once_by_path() {
        let dir = tempfile::tempdir().unwrap();
        let mut fs = FileSystem::at(dir.path()).unwrap();
        let place = fs.place();
        fs.pretend_another();
        let mut all = FileSystems {
            nodefs: Some(fs.clone()),
            imagefs: FileSystem::at("/".as_ref()).ok(),
            containerfs: Some(fs),
        };
        let mut summary = Summary::default();
        let unread = all.read(&mut summary);
        assert!(unread.moved && unread.error.is_none(), "{unread:?}");
        assert!(summary.nodefs.is_none() && summary.imagefs.is_some());
        let moved: Vec<_> = all.moved().collect();
        assert_eq!(moved, [dir.path(), dir.path()]);
        let found = FileSystem::at(dir.path()).unwrap();
        let moved = all.replace(&found).unwrap();
        assert_eq!((&moved.from, &moved.to), (&place, &place));
        let signals: Vec<_> = moved.signals.iter().map(|moved| moved.signal).collect();
        assert_eq!(signals, [NODEFS, CONTAINERFS].concat());
        let unread = all.read(&mut summary);
        assert!(!unread.moved && summary.nodefs.is_some(), "{unread:?}");
        assert_eq!(all.moved().count(), 0);
    }
}
