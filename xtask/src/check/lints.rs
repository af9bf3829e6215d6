//! rustfmt and clippy, warnings as errors, for the host and for the eBPF target.

use std::process::Command;

use anyhow::Result;

use super::Findings;
use crate::process::{ProcessError, cargo, run_logged};
use crate::workspace::Workspace;

pub(super) fn rustfmt(workspace: &Workspace) -> Result<Findings> {
    judge(
        workspace,
        "rustfmt",
        cargo().args(["fmt", "--all", "--check"]),
    )
}

pub(super) fn clippy(workspace: &Workspace) -> Result<Findings> {
    judge(
        workspace,
        "clippy",
        cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]),
    )
}

/// The programs exist only for the eBPF target, whose core library is built on the spot.
pub(super) fn clippy_ebpf(workspace: &Workspace) -> Result<Findings> {
    let mut clippy = cargo();
    clippy
        .args([
            "clippy",
            "--package",
            "eviction-ebpf",
            "--bins",
            "--target",
            "bpfel-unknown-none",
            "-Z",
            "build-std=core",
        ])
        // Flags differ from those of the ordinary build: another folder keeps both caches warm.
        .arg("--target-dir")
        .arg(workspace.target().join("clippy-ebpf"))
        .args(["--", "-D", "warnings"])
        // Opens build-std to a stable compiler, as the build of the object does.
        .env("RUSTC_BOOTSTRAP", "1")
        .env(
            "CARGO_TARGET_BPFEL_UNKNOWN_NONE_RUSTFLAGS",
            "--cfg=bpf_target_arch=\"x86_64\"",
        );
    judge(workspace, "clippy-ebpf", &mut clippy)
}

fn judge(workspace: &Workspace, name: &str, command: &mut Command) -> Result<Findings> {
    match run_logged(
        command.current_dir(workspace.root()),
        &workspace.log(&format!("check-{name}")),
    ) {
        Ok(()) => Ok(Findings::new()),
        Err(failed @ ProcessError::Failed { .. }) => Ok(vec![
            failed.to_string(),
            format!(
                "the whole output: {}",
                workspace.log(&format!("check-{name}")).display()
            ),
        ]),
        Err(other) => Err(other.into()),
    }
}
