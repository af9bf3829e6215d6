//! Which mount a path is on, by the mount table alone. Asking the path itself (`stat`, `statfs`) would ask the file system
//! there, and a dead server does not answer: whoever asks then waits in the kernel, where nothing wakes it.

use super::mount::parse;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// Tells when anything was mounted or unmounted. Asking costs a system call and nothing else.
#[derive(Debug)]
pub struct MountWatch {
    table: File,
}

impl MountWatch {
    pub fn open() -> io::Result<Self> {
        let table = File::open(MOUNTINFO)?;
        Ok(Self { table })
    }

    /// Since it was opened or last asked.
    pub fn has_changed(&self) -> bool {
        let mut table = [PollFd::new(self.table.as_fd(), PollFlags::POLLPRI)];
        // A failure is taken for a change, which costs a look at the table.
        poll(&mut table, PollTimeout::ZERO).is_err()
            || table[0]
                .revents()
                .is_some_and(|told| told.intersects(PollFlags::POLLPRI | PollFlags::POLLERR))
    }
}

/// The table as it was at one moment.
#[derive(Debug)]
pub struct MountTable {
    rows: Vec<Row>,
}

/// A mount. Its number is given out again when it has gone; together with the device it is good enough to notice that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covering {
    id: u64,
    device: u64,
}

#[derive(Debug)]
struct Row {
    id: u64,
    parent: u64,
    device: u64,
    point: PathBuf,
}

impl MountTable {
    pub fn read() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string(MOUNTINFO)?))
    }

    fn parse(text: &str) -> Self {
        let row = |line: &str| {
            let parent = line.split(' ').nth(1)?.parse().ok()?;
            let (id, mount) = parse(line)?;
            Some(Row {
                id,
                parent,
                device: mount.device,
                point: mount.point,
            })
        };
        Self {
            rows: text.lines().filter_map(row).collect(),
        }
    }

    /// The mount that an absolute path without symbolic links is on. The walk is the kernel's: on each mount the
    /// mount point that comes first on the way leads on, so what was mounted over hides what is below.
    pub fn covering(&self, path: &Path) -> Option<Covering> {
        let known: BTreeSet<u64> = self.rows.iter().map(|row| row.id).collect();
        let is_top = |row: &&Row| !known.contains(&row.parent);
        let mut at = self
            .rows
            .iter()
            .filter(is_top)
            .find(|row| row.point == Path::new("/"))?;
        let leads_on = |from: &Row, row: &&Row| {
            row.parent == from.id && row.id != from.id && path.starts_with(&row.point)
        };
        // Each step leads to a mount that was not met before; there are no more steps than mounts.
        for _ in &self.rows {
            let next = self.rows.iter().filter(|row| leads_on(at, row));
            match next.min_by_key(|row| row.point.components().count()) {
                Some(next) => at = next,
                None => break,
            }
        }
        let (id, device) = (at.id, at.device);
        Some(Covering { id, device })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = r"1 0 0:1 / / rw - rootfs rootfs rw
20 1 8:1 / / rw - ext4 /dev/sda1 rw
30 20 8:2 / /a/b rw - ext4 /dev/sda2 rw
31 20 8:3 / /c rw - ext4 /dev/sda3 rw
40 31 0:50 / /c rw - nfs4 server:/x rw
41 40 0:51 / /c/with\040blank rw - tmpfs tmpfs rw
50 20 8:5 / /a rw - ext4 /dev/sda5 rw";

    #[test]
    fn the_mount_that_a_walk_would_end_on_is_found_in_the_table() {
        let table = MountTable::parse(TABLE);
        for (path, id) in [
            ("/", 20),
            ("/etc/x", 20),
            ("/cc", 20),
            // Mounted over later, so what is mounted below is not to be seen.
            ("/a/b/x", 50),
            ("/c", 40),
            ("/c/deep", 40),
            ("/c/with blank/x", 41),
        ] {
            let found = table.covering(Path::new(path)).unwrap();
            assert_eq!(found.id, id, "{path}");
        }
        assert_eq!(MountTable::parse("").covering(Path::new("/")), None);
    }

    #[test]
    fn the_real_table_agrees_with_the_kernel() {
        use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
        let table = MountTable::read().unwrap();
        for path in ["/", "/proc", "/proc/self/fd", "/sys", "/dev"] {
            let asked = statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).unwrap();
            let real = fs::canonicalize(path).unwrap();
            let found = table.covering(&real).unwrap();
            assert_eq!(found.id, asked.stx_mnt_id, "{path}");
        }
    }

    #[test]
    fn nothing_has_changed_at_once_after_it_was_asked() {
        let watch = MountWatch::open().unwrap();
        // Other tests mount, too.
        let quiet = (0..100).any(|_| {
            watch.has_changed();
            !watch.has_changed()
        });
        assert!(quiet);
    }
}
