//! What statfs says about a file system.

use super::mount::Mount;
use nix::sys::stat::stat;
use nix::sys::statvfs::statvfs;
use std::path::{Path, PathBuf};

/// One reading of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystemUse {
    pub available_bytes: u64,
    pub capacity_bytes: u64,
    /// 0 where inodes are made as needed (btrfs): then there is no inode signal.
    pub inodes: u64,
    pub inodes_free: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot look at the file system of {path}: {source}")]
pub struct FileSystemError {
    path: PathBuf,
    source: nix::Error,
}

/// A file system, by a path on it.
#[derive(Debug, Clone)]
pub struct FileSystem {
    path: PathBuf,
    /// Device number of the file system that the path is really on.
    pub device: u64,
    /// Its mount, where it can be told.
    pub mount: Option<Mount>,
}

impl FileSystem {
    pub fn at(path: &Path) -> Result<Self, FileSystemError> {
        match stat(path) {
            Ok(found) => {
                let mount = Mount::of(path).ok();
                Ok(Self {
                    path: path.to_owned(),
                    device: mount.as_ref().map_or(found.st_dev, |mount| mount.device),
                    mount,
                })
            }
            Err(source) => Err(FileSystemError {
                path: path.to_owned(),
                source,
            }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn read(&self) -> Result<FileSystemUse, FileSystemError> {
        let found = statvfs(&self.path).map_err(|source| FileSystemError {
            path: self.path.clone(),
            source,
        })?;
        // The kubelet (cAdvisor) takes f_bavail, what an ordinary user may still write.
        Ok(FileSystemUse {
            available_bytes: found.blocks_available() * found.fragment_size(),
            capacity_bytes: found.blocks() * found.fragment_size(),
            inodes: found.files(),
            inodes_free: found.files_free(),
        })
    }
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
    fn an_error_names_the_path() {
        let error = FileSystem::at(Path::new("/no/such/place")).unwrap_err();
        assert!(error.to_string().contains("/no/such/place"), "{error}");
    }
}
