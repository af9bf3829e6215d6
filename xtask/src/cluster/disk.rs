//! A file system of the node's own, for the kubelet's and the runtime's directories: tests may fill it without filling the machine.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::process::capture;

/// Which of the node's directories are on file systems of their own; `None`: the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disks {
    /// Of the kubelet, the logs, and the runtime unless that has one itself.
    pub node: Option<Disk>,
    pub runtime: Option<Disk>,
}

/// An ext4 in a sparse file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    pub bytes: u64,
    pub inodes: u64,
}

impl Disk {
    /// `place`: an empty directory. It is unmounted with all that is mounted below the cluster's folder; its loop device goes with it.
    pub(super) fn mount(self, image: &Path, place: &Path) -> Result<()> {
        let file = std::fs::File::create_new(image)
            .with_context(|| format!("cannot make {}", image.display()))?;
        file.set_len(self.bytes)?;
        let inodes = self.inodes.to_string();
        // Nothing is kept back for root: tests reckon with all of it.
        let options = ["-q", "-F", "-m", "0", "-N", &inodes];
        capture(Command::new("mkfs.ext4").args(options).arg(image))?;
        capture(
            Command::new("mount")
                .args(["-o", "loop"])
                .arg(image)
                .arg(place),
        )
        .context("the node's disk cannot be mounted: that needs root and loop devices")?;
        // As systemd makes all mounts of a node; pods that follow the node's mounts need it.
        capture(Command::new("mount").arg("--make-shared").arg(place))?;
        Ok(())
    }
}
