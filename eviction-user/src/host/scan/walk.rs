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
    linked: BTreeMap<FileId, u32>,
}

/// A file by device and inode.
type FileId = (u32, u32, u64);

/// Whoever fills a tree must not fill our memory with it, which is small and locked: beyond so many, directories that wait to be read
/// are not entered (and told as unreadable), and files with several names count once for each.
const MOST_KEPT: usize = 1 << 15;

/// What one directory adds.
#[derive(Default)]
struct Found {
    bytes: u64,
    inodes: u64,
    directories: Vec<Vec<u8>>,
    /// Files with several names: how many each has, and its bytes.
    linked: Vec<(FileId, u32, u64)>,
    /// Directories that are not entered.
    unentered: u64,
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
        self.step_keeping(MOST_KEPT, top, throttle)
    }

    /// `most`: directories that may wait to be read.
    pub(super) fn step_keeping(&mut self, most: usize, top: &Top, throttle: &mut Throttle) -> bool {
        let Some(path) = self.pending.last() else {
            return false;
        };
        // The one that is read now makes room.
        let room = (most + 1).saturating_sub(self.pending.len());
        let found = match read_directory(top, path, room, &self.linked, throttle) {
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
        self.inodes += found.inodes;
        self.bytes += found.bytes;
        self.unreadable += found.unentered;
        self.pending.extend(found.directories);
        for (file, names, bytes) in found.linked {
            if self.is_first_name(file, names) {
                self.inodes += 1;
                self.bytes += bytes;
            }
        }
        true
    }

    pub(super) fn is_done(&self) -> bool {
        self.pending.is_empty()
    }

    /// A name alone does not tell whether its file has others; the count of names does. Once all have been
    /// met the file is forgotten: only files that are also linked from elsewhere stay.
    fn is_first_name(&mut self, file: FileId, names: u32) -> bool {
        match self.linked.get_mut(&file) {
            Some(left) => {
                *left -= 1;
                if *left == 0 {
                    self.linked.remove(&file);
                }
                false
            }
            None => {
                // One name may be left of a file that was met under another before that was removed.
                if names > 1 && self.linked.len() < MOST_KEPT {
                    self.linked.insert(file, names - 1);
                }
                true
            }
        }
    }
}

/// `room`: for so many directories to be read later. `known`: files of which a name was met before. `None`: the throttle said to stop.
fn read_directory(
    top: &Top,
    path: &[u8],
    room: usize,
    known: &BTreeMap<FileId, u32>,
    throttle: &mut Throttle,
) -> Result<Option<Found>, Errno> {
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
        let bytes = stat.stx_blocks * BLOCK;
        let is_directory = FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory;
        let id = (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        let has_names = !is_directory && (stat.stx_nlink > 1 || known.contains_key(&id));
        if has_names && found.linked.len() < MOST_KEPT {
            found.linked.push((id, stat.stx_nlink, bytes));
            continue;
        }
        found.bytes += bytes;
        found.inodes += 1;
        if is_directory && found.directories.len() < room {
            found.directories.push(join(path, name));
        } else if is_directory {
            found.unentered += 1;
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
