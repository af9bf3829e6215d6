//! The file systems that are watched, by the kubelet's names for them.

use crate::model::{FsLayout, FsStats, Signal, Summary, Timestamp};
use crate::sys::filesystem::{FileSystem, FileSystemError, FileSystemUse};

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

    /// One that cannot be read has no figures, and is no reason to be blind for all the rest. The first
    /// such error is returned.
    pub(super) fn read(&self, now: Timestamp, summary: &mut Summary) -> Option<FileSystemError> {
        let mut first = None;
        for (fs, stats) in [
            (&self.nodefs, &mut summary.nodefs),
            (&self.imagefs, &mut summary.imagefs),
            (&self.containerfs, &mut summary.containerfs),
        ] {
            *stats = match fs.as_ref().map(FileSystem::read) {
                Some(Ok(read)) => Some(fs_stats(now, &read)),
                Some(Err(e)) => {
                    first.get_or_insert(e);
                    None
                }
                None => None,
            };
        }
        first
    }
}

/// Devices on which workloads' use is known by workload; each once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Devices {
    pub(super) node: Option<u64>,
    pub(super) layers: Option<u64>,
}

fn fs_stats(now: Timestamp, read: &FileSystemUse) -> FsStats {
    // A file system that makes inodes as needed reports 0 of 0: no signal rather than pressure for ever.
    let fixed_table = read.inodes > 0;
    FsStats {
        time: Some(now),
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
        let error = all.read(Timestamp::from_secs(1), &mut summary).unwrap();
        assert!(error.to_string().contains("cannot look at"), "{error}");
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
}
