//! One pass over a directory tree, a directory at a time: it can be put aside, even over a restart, and
//! gone on with.

use super::throttle::Throttle;
use crate::sys::mount::Mount;
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Statx, StatxFlags, openat2, statx,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const FLAGS: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);

/// `st_blocks` and `stx_blocks` are in this unit whatever the file system's block size is.
const BLOCK: u64 = 512;

/// The top of a tree, held open.
#[derive(Debug)]
pub(super) struct Top {
    fd: OwnedFd,
    own: Statx,
}

impl Top {
    pub(super) fn open(dir: &Path) -> Result<Self, Errno> {
        let fd = openat2(CWD, dir, FLAGS, Mode::empty(), ResolveFlags::empty())?;
        let own = look_at(&fd, c"", AtFlags::EMPTY_PATH)?;
        Ok(Self { fd, own })
    }

    /// Of the file system it is on, as `st_dev`.
    pub(super) fn device(&self) -> u64 {
        rustix::fs::makedev(self.own.stx_dev_major, self.own.stx_dev_minor)
    }

    /// The device of the real file system: btrfs and overlay show others to `stat`.
    pub(super) fn file_system(&self) -> u64 {
        Mount::with_id(self.own.stx_mnt_id).map_or_else(|_| self.device(), |mount| mount.device)
    }

    pub(super) fn inode(&self) -> u64 {
        self.own.stx_ino
    }

    /// What is mounted somewhere below belongs to somebody else, also where it is a part of the same
    /// file system (a bind mount): the mount tells, not the device (STATX_MNT_ID, Linux 5.8).
    fn is_elsewhere(&self, entry: &Statx) -> bool {
        entry.stx_mnt_id != self.own.stx_mnt_id
    }
}

/// How far a pass is, and what it has counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Walk {
    /// Directories still to be read, as paths from the top; the last one is next.
    pending: Vec<Vec<u8>>,
    /// On disk, holes not counted.
    pub(super) bytes: u64,
    pub(super) inodes: u64,
    /// Directories that could not be read.
    pub(super) unreadable: u64,
    /// Files with several names, by device and inode: how many of their names are still to come.
    linked: BTreeMap<(u32, u32, u64), u32>,
}

/// What one directory adds.
#[derive(Default)]
struct Found {
    bytes: u64,
    directories: Vec<Vec<u8>>,
    files: Vec<Statx>,
}

impl Walk {
    pub(super) fn begin(top: &Top) -> Self {
        Self {
            pending: vec![Vec::new()],
            bytes: top.own.stx_blocks * BLOCK,
            inodes: 1,
            ..Self::default()
        }
    }

    /// Reads the next directory; `false`: there is none left, or the throttle said to stop, and then what
    /// was half read is read again.
    pub(super) fn step(&mut self, top: &Top, throttle: &mut Throttle) -> bool {
        let Some(path) = self.pending.last() else {
            return false;
        };
        let found = match read_directory(top, path, throttle) {
            Ok(Some(found)) => found,
            Ok(None) => return false,
            // It has been removed, or is a mount point now.
            Err(Errno::NOENT | Errno::XDEV | Errno::NOTDIR | Errno::LOOP) => Found::default(),
            Err(_) => {
                self.unreadable += 1;
                Found::default()
            }
        };
        self.pending.pop();
        self.inodes += found.directories.len() as u64;
        self.bytes += found.bytes;
        self.pending.extend(found.directories);
        for file in &found.files {
            if self.is_first_name(file) {
                self.inodes += 1;
                self.bytes += file.stx_blocks * BLOCK;
            }
        }
        true
    }

    pub(super) fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// A name alone does not tell whether its file has others; the count of names does. Once all have been
    /// met the file is forgotten: only files that are also linked from elsewhere stay.
    fn is_first_name(&mut self, file: &Statx) -> bool {
        let key = (file.stx_dev_major, file.stx_dev_minor, file.stx_ino);
        match self.linked.get_mut(&key) {
            // One name may be left of a file that was met under another before that was removed.
            Some(left) => {
                *left -= 1;
                if *left == 0 {
                    self.linked.remove(&key);
                }
                false
            }
            None => {
                if file.stx_nlink > 1 {
                    self.linked.insert(key, file.stx_nlink - 1);
                }
                true
            }
        }
    }
}

/// `None`: the throttle said to stop.
fn read_directory(top: &Top, path: &[u8], throttle: &mut Throttle) -> Result<Option<Found>, Errno> {
    let mut found = Found::default();
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    let name = if path.is_empty() { b"." } else { path };
    let fd = openat2(
        &top.fd,
        OsStr::from_bytes(name),
        FLAGS,
        Mode::empty(),
        within,
    )?;
    let mut entries = Dir::read_from(&fd)?;
    while let Some(entry) = entries.read() {
        if throttle.tick().is_break() {
            return Ok(None);
        }
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        // What has vanished meanwhile counts no more.
        let Ok(stat) = look_at(&fd, name, AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if top.is_elsewhere(&stat) {
            continue;
        }
        if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory {
            found.bytes += stat.stx_blocks * BLOCK;
            found.directories.push(join(path, name));
        } else {
            found.files.push(stat);
        }
    }
    Ok(Some(found))
}

fn look_at(at: impl AsFd, name: &CStr, flags: AtFlags) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
    statx(at, name, flags | AtFlags::NO_AUTOMOUNT, wanted)
}

fn join(path: &[u8], name: &CStr) -> Vec<u8> {
    let separator: &[u8] = if path.is_empty() { b"" } else { b"/" };
    [path, separator, name.to_bytes()].concat()
}
