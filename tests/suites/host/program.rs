//! The program file itself.

use std::process::Command;

use anyhow::{Context, Result, bail};
use eviction_tests::suite::{self, Case};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "the release binary needs no shared library",
        is_static,
    )]
}

/// It has to run on any node, and in guests that hold nothing but busybox.
fn is_static() -> Result<()> {
    let eviction = suite::programs()?.join("eviction");
    let headers = Command::new("readelf")
        .args(["--program-headers", "--wide"])
        .arg(&eviction)
        .output()
        .context("readelf does not start")?;
    let headers = String::from_utf8_lossy(&headers.stdout);
    if !headers.contains("LOAD") {
        bail!("{} is no ELF program", eviction.display());
    }
    if headers.contains("INTERP") {
        bail!("{} asks for a dynamic loader", eviction.display());
    }
    Ok(())
}
