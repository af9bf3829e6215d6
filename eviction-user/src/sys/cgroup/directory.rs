//! A cgroup, held by an open directory: it can be removed and remade under the same name while we
//! look, and then this handle still means the old one.

use super::parse;
use crate::sys::reader::{ReadError, Reader};
use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fstat};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("cannot read the mount table: {0}")]
    Mounts(String),
    #[error(
        "no memory controller is mounted: mount cgroup2 on /sys/fs/cgroup, or the v1 memory hierarchy on /sys/fs/cgroup/memory"
    )]
    NoMemoryController,
    #[error(
        "{path} is not in the hierarchy of the memory controller: name a cgroup below {mount}, or its name as /proc/PID/cgroup shows it"
    )]
    Elsewhere { path: PathBuf, mount: PathBuf },
    #[error("cgroup {path} cannot be opened: {source}")]
    Open { path: PathBuf, source: Errno },
    #[error("cannot write {path}: {source}")]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// An open cgroup directory with its id.
#[derive(Debug, Clone)]
pub struct CgroupDir {
    fd: Arc<OwnedFd>,
    id: u64,
    path: PathBuf,
}

impl CgroupDir {
    pub fn open(path: &Path) -> Result<Self, CgroupError> {
        Self::open_from(nix::fcntl::AT_FDCWD, path, path.to_owned())
    }

    /// The child of that name; `None` when it is gone.
    pub fn child(&self, name: &str) -> Option<Self> {
        Self::open_from(&*self.fd, Path::new(name), self.path.join(name)).ok()
    }

    fn open_from(at: impl AsFd, name: &Path, path: PathBuf) -> Result<Self, CgroupError> {
        let open_error = |source| CgroupError::Open {
            path: path.clone(),
            source,
        };
        let fd = openat(
            at,
            name,
            OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(open_error)?;
        // kernfs_get_inode(): the inode number is the kernfs id on 64-bit systems since 5.5, which is
        // what bpf_get_current_cgroup_id() returns. True for v1 hierarchies as well.
        let id = fstat(&fd).map_err(open_error)?.st_ino;
        Ok(Self {
            fd: Arc::new(fd),
            id,
            path,
        })
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn name(&self) -> String {
        self.path
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default()
    }

    /// Is this directory still the cgroup that was opened? A removed cgroup answers ENODEV to every read.
    pub fn exists(&self) -> bool {
        self.reader("cgroup.procs")
            .is_ok_and(|r| r.read("process ids", |_| Some(())).is_ok())
    }

    pub fn reader(&self, file: &str) -> Result<Reader, ReadError> {
        let path = self.path.join(file);
        match openat(
            &*self.fd,
            file,
            OFlag::O_RDONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        ) {
            Ok(fd) => Ok(Reader::from_file(File::from(fd), path)),
            Err(e) => Err(ReadError::Io {
                path,
                source: e.into(),
            }),
        }
    }

    /// The single number in `file`.
    pub fn number(&self, file: &str) -> Result<u64, ReadError> {
        self.reader(file)?
            .read("expected one number", parse::single)
    }

    pub fn write(&self, file: &str, value: &str) -> Result<(), CgroupError> {
        let write_error = |source| CgroupError::Write {
            path: self.path.join(file),
            source,
        };
        let fd = openat(
            &*self.fd,
            file,
            OFlag::O_WRONLY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )
        .map_err(|e| write_error(e.into()))?;
        File::from(fd)
            .write_all(value.as_bytes())
            .map_err(write_error)
    }

    /// The child cgroups that exist now, in the order of their names (readdir's own order is a hash).
    pub fn children(&self) -> Vec<Self> {
        if self.child_count() == Some(0) {
            return Vec::new();
        }
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let Ok(mut listing) = Dir::openat(&*self.fd, ".", flags, Mode::empty()) else {
            return Vec::new();
        };
        let mut names: Vec<String> = listing
            .iter()
            .flatten()
            .filter(|entry| entry.file_type() == Some(Type::Directory))
            .filter_map(|entry| entry.file_name().to_str().ok().map(str::to_owned))
            .filter(|name| name != "." && name != "..")
            .collect();
        names.sort_unstable();
        names.iter().filter_map(|name| self.child(name)).collect()
    }

    /// How many child cgroups there are now. kernfs counts them in a directory's links (`kernfs_refresh_inode()`: subdirs + 2; the
    /// same since 3.14), so nothing has to be listed, which takes its time: each has dozens of files.
    pub fn child_count(&self) -> Option<u64> {
        fstat(&*self.fd).ok()?.st_nlink.checked_sub(2)
    }

    /// Appends the pids of this cgroup alone, without its descendants.
    pub fn pids(&self, into: &mut Vec<i32>) -> Result<(), ReadError> {
        let path = self.path.join("cgroup.procs");
        let content = std::fs::File::from(
            openat(
                &*self.fd,
                "cgroup.procs",
                OFlag::O_RDONLY | OFlag::O_CLOEXEC,
                Mode::empty(),
            )
            .map_err(|e| ReadError::Io {
                path: path.clone(),
                source: e.into(),
            })?,
        );
        // Unlike the figures, this list has no bound: read it to its end.
        let content =
            io::read_to_string(content).map_err(|source| ReadError::Io { path, source })?;
        into.extend(parse::pids(content.as_bytes()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_come_in_the_order_of_their_names_and_stay_the_same_after_a_rename_of_the_path() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b", "a", "c"] {
            std::fs::create_dir(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("memory.max"), "max\n").unwrap();
        let group = CgroupDir::open(dir.path()).unwrap();
        let names: Vec<_> = group.children().iter().map(CgroupDir::name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(group.number("memory.max").unwrap(), u64::MAX);

        let a = group.child("a").unwrap();
        std::fs::write(dir.path().join("a/memory.current"), "1").unwrap();
        std::fs::rename(dir.path().join("a"), dir.path().join("moved")).unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        assert_eq!(
            a.number("memory.current").unwrap(),
            1,
            "the handle still means the first one"
        );
        assert_ne!(a.id(), group.child("a").unwrap().id());
    }

    #[test]
    fn a_missing_cgroup_is_named() {
        let error = CgroupDir::open(Path::new("/sys/fs/cgroup/none/such")).unwrap_err();
        assert!(
            error.to_string().contains("/sys/fs/cgroup/none/such"),
            "{error}"
        );
    }
}
