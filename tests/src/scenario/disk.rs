//! A small ext4 of our own on a loop device.

use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("{command} failed: {text}")]
    Command { command: String, text: String },
    #[error("cannot prepare {path}: {source}")]
    Io {
        path: PathBuf,
        source: std::io::Error,
    },
}

/// Mounted at [`Disk::path`] until it is dropped.
#[derive(Debug)]
pub struct Disk {
    mount: PathBuf,
}

impl Disk {
    /// Makes an ext4 with `inodes` inodes in `folder` and mounts it.
    pub fn make(folder: &Path, inodes: u64) -> Result<Self, DiskError> {
        let image = folder.join("disk.img");
        let file = std::fs::File::create(&image).map_err(|source| DiskError::Io {
            path: image.clone(),
            source,
        })?;
        file.set_len(64 << 20).map_err(|source| DiskError::Io {
            path: image.clone(),
            source,
        })?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-N", &inodes.to_string()])
            .arg(&image))?;
        Self::mount(&image, folder)
    }

    /// Mounts an image file or block device that was made elsewhere (a guest has no mkfs).
    pub fn mount(image: &Path, folder: &Path) -> Result<Self, DiskError> {
        let mount = folder.join("disk");
        std::fs::create_dir_all(&mount).map_err(|source| DiskError::Io {
            path: mount.clone(),
            source,
        })?;
        let options = if image.starts_with("/dev") {
            "rw"
        } else {
            "loop"
        };
        run(Command::new("mount")
            .args(["-t", "ext4", "-o", options])
            .arg(image)
            .arg(&mount))?;
        Ok(Self { mount })
    }

    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// (all, free)
    pub fn inodes(&self) -> nix::Result<(u64, u64)> {
        nix::sys::statvfs::statvfs(&self.mount).map(|s| (s.files(), s.files_free()))
    }

    /// Bytes that ordinary users may still write.
    pub fn available(&self) -> nix::Result<u64> {
        nix::sys::statvfs::statvfs(&self.mount).map(|s| s.blocks_available() * s.fragment_size())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Err(e) = run(Command::new("umount").arg(&self.mount)) {
            eprintln!("warning: {e}");
        }
    }
}

fn run(command: &mut Command) -> Result<(), DiskError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let failed = |text: String| DiskError::Command {
        command: name.clone(),
        text,
    };
    let output = command.output().map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(
        String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    ))
}
