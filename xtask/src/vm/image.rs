//! Disk images for guests, made on the host: a guest has no tools for it.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process::capture;

/// An ext4 with so many inodes.
pub fn ext4(image: &Path, bytes: u64, inodes: &str) -> Result<()> {
    empty(image, bytes)?;
    let made = capture(
        Command::new("mkfs.ext4")
            .args(["-q", "-F", "-N", inodes])
            .arg(image),
    );
    made.map(drop).context("mkfs.ext4: run `cargo xtask setup`")
}

/// Swap space.
pub fn swap(image: &Path, bytes: u64) -> Result<()> {
    empty(image, bytes)?;
    let made = capture(Command::new("mkswap").arg(image));
    made.map(drop).context("mkswap: run `cargo xtask setup`")
}

fn empty(image: &Path, bytes: u64) -> Result<()> {
    let made = File::create(image).and_then(|file| file.set_len(bytes));
    made.with_context(|| format!("making {}", image.display()))
}
