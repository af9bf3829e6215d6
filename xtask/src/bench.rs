//! `cargo xtask bench cluster` and `pairing`: eviction against the kubelet, and beside it, on a real node of this machine. The suite's own program carries it
//! out: it is the one that knows the node.

use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::build;
use crate::process::cargo;
use crate::setup::{self, Scope};
use crate::workspace::Workspace;

/// `what`: the flags that say which of them, and how often.
pub fn cluster(
    workspace: &Workspace,
    what: &[String],
    in_guest: bool,
    output: &str,
) -> Result<ExitCode> {
    let needed = if in_guest {
        Scope::Guests
    } else {
        Scope::Build
    };
    setup::ensure(workspace, needed)?;
    let programs = build::all_programs(workspace)?;
    let output = format!("--output={output}");
    let ended = cargo()
        .current_dir(workspace.root())
        .env("EVICTION_PROGRAMS", programs)
        .args(["test", "--quiet", "--package", "eviction-tests"])
        .args(["--test", "cluster", "--", "bench", &output])
        .args(what)
        .status()
        .context("cannot start cargo")?;
    Ok(if ended.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
