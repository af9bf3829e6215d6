//! What statfs says about a file system.

use super::distant::{Distant, PATIENCE};
use super::mount::{FsKind, Mount};
use super::mount_table::{Covering, MountTable};
use super::{clock, trust, xfs};
use crate::model::Timestamp;
use crate::ports::FsPlace;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fstat, stat};
use nix::sys::statvfs::{Statvfs, fstatvfs, statvfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One reading of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemUse {
    /// Of when these figures are.
    pub time: Timestamp,
    pub available_bytes: u64,
    pub capacity_bytes: u64,
    /// 0 where inodes are made as needed (btrfs): then there is no inode signal.
    pub inodes: u64,
    pub inodes_free: u64,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum FileSystemError {
    #[error("cannot look at the file system of {path}: {source}")]
    Unreadable { path: PathBuf, source: nix::Error },
    #[error(
        "{path} is on another file system than before: it has been unmounted, or something was mounted over it"
    )]
    Another { path: PathBuf },
    #[error(
        "{path} has not answered for {} s: its server or daemon may be gone; its figures count as not read until it answers",
        PATIENCE.as_secs()
    )]
    NoAnswer { path: PathBuf },
}

/// A file system, by a path on it.
#[derive(Debug, Clone)]
pub struct FileSystem {
    path: PathBuf,
    shown: Shown,
    /// Device number of the file system that the path is really on.
    pub device: u64,
    /// Its mount, where it can be told.
    pub mount: Option<Mount>,
    /// Where `statfs` says something else: see `xfs.rs`.
    most_inodes: Option<u64>,
    /// Not where they are made as needed.
    pub counts_inodes: bool,
    /// The path without symbolic links.
    real: PathBuf,
    /// The mount that the table had for it.
    covering: Option<Covering>,
    /// The table has another one by now.
    is_covered_anew: bool,
    /// Where asking may hang, somebody else asks.
    distant: Option<Arc<Distant>>,
}

/// What tells one file system from the next in the same place. Device numbers are given out again: the second disk on a loop
/// device has the first one's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shown {
    /// `st_dev` of the path.
    device: u64,
    /// `f_fsid`; 0 for the many that have none.
    id: u64,
}

impl FileSystem {
    /// Waits for the file system, which may not answer: see [`super::distant::Opening`].
    pub fn at(path: &Path) -> Result<Self, FileSystemError> {
        let unreadable = |source| FileSystemError::Unreadable {
            path: path.to_owned(),
            source,
        };
        // All is asked of one descriptor: a mount that comes in between must not mix two file systems. With O_PATH nothing
        // is opened on the file system itself.
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let place = open(path, flags, Mode::empty()).map_err(unreadable)?;
        let device = fstat(&place).map_err(unreadable)?.st_dev;
        let stats = fstatvfs(&place).map_err(unreadable)?;
        let mount = Mount::holding(&place).ok();
        let is_xfs = mount
            .as_ref()
            .is_some_and(|mount| mount.kind == FsKind::Xfs);
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let table = MountTable::read().ok();
        let may_hang = mount.as_ref().is_none_or(trust::may_hang);
        let mut found = Self {
            most_inodes: is_xfs.then(|| xfs::most_inodes(path)).flatten(),
            path: path.to_owned(),
            shown: Shown {
                device,
                id: id(&stats),
            },
            device: mount.as_ref().map_or(device, |mount| mount.device),
            mount,
            counts_inodes: stats.files() > 0,
            covering: table.and_then(|table| table.covering(&real)),
            is_covered_anew: false,
            real,
            distant: None,
        };
        if may_hang {
            let reader = found.clone();
            let first = found.figures(&stats);
            let distant = Distant::start(first, move || reader.ask()).map_err(|e| {
                let code = e.raw_os_error().unwrap_or(nix::libc::EAGAIN);
                unreadable(nix::Error::from_raw(code))
            })?;
            found.distant = Some(Arc::new(distant));
        }
        Ok(found)
    }

    /// Nothing but the mount may be another one.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.shown == other.shown && self.place() == other.place()
    }

    /// Takes in the mount table as it is now. What it says to be mounted over is not asked any more.
    pub fn check(&mut self, table: &MountTable) {
        self.is_covered_anew = table.covering(&self.real) != self.covering;
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What people call it.
    pub fn place(&self) -> FsPlace {
        let mount = self.mount.as_ref();
        FsPlace {
            kind: mount.map(|mount| mount.kind.name().to_owned()),
            device: self.device,
            at: mount.map_or(&self.path, |mount| &mount.point).clone(),
        }
    }

    /// Never waits: of one that may not answer, these are the figures that came last.
    pub fn read(&self) -> Result<FileSystemUse, FileSystemError> {
        let path = || self.path.clone();
        if self.is_covered_anew {
            return Err(FileSystemError::Another { path: path() });
        }
        let Some(distant) = &self.distant else {
            return self.ask();
        };
        let (begun, outcome) = distant.last();
        if clock::elapsed_since(begun) > PATIENCE {
            return Err(FileSystemError::NoAnswer { path: path() });
        }
        outcome
    }

    fn ask(&self) -> Result<FileSystemUse, FileSystemError> {
        let time = clock::now();
        let unreadable = |source| FileSystemError::Unreadable {
            path: self.path.clone(),
            source,
        };
        let device = stat(&self.path).map_err(unreadable)?.st_dev;
        let found = statvfs(&self.path).map_err(unreadable)?;
        let id = id(&found);
        // What lies below an unmounted disk is no measure of it (user case 20).
        if self.shown != (Shown { device, id }) {
            return Err(FileSystemError::Another {
                path: self.path.clone(),
            });
        }
        Ok(FileSystemUse {
            time,
            ..self.figures(&found)
        })
    }

    fn figures(&self, found: &Statvfs) -> FileSystemUse {
        // The kubelet (cAdvisor) takes f_bavail, what an ordinary user may still write.
        let used = found.files().saturating_sub(found.files_free());
        let inodes = self.most_inodes.unwrap_or(found.files());
        FileSystemUse {
            time: clock::now(),
            available_bytes: found.blocks_available() * found.fragment_size(),
            capacity_bytes: found.blocks() * found.fragment_size(),
            inodes,
            inodes_free: inodes.saturating_sub(used),
        }
    }

    /// Makes the next look find another file system there.
    #[cfg(test)]
    pub(crate) fn pretend_another(&mut self) {
        self.shown.device += 1;
    }
}

fn id(stats: &Statvfs) -> u64 {
    stats.filesystem_id()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_file_system_has_sizes_that_fit_together() {
        let dir = tempfile::tempdir().unwrap();
        let read = FileSystem::at(dir.path()).unwrap().read().unwrap();
        assert!(
            read.capacity_bytes > 0 && read.available_bytes <= read.capacity_bytes,
            "{read:?}"
        );
        assert!(read.inodes_free <= read.inodes, "{read:?}");
    }

    #[test]
    fn case_20_another_file_system_in_the_same_place_is_an_error_and_no_figure() {
        let mut fs = FileSystem::at(Path::new("/proc")).unwrap();
        fs.pretend_another();
        let error = fs.read().unwrap_err().to_string();
        assert!(
            error.starts_with("/proc is on another file system"),
            "{error}"
        );
    }

    #[test]
    fn an_error_names_the_path() {
        let error = FileSystem::at(Path::new("/no/such/place")).unwrap_err();
        assert!(error.to_string().contains("/no/such/place"), "{error}");
    }
}
