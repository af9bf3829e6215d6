//! `cargo xtask build`: the static release binary at `target/release/eviction`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::console;
use crate::process::{cargo, run_logged};
use crate::workspace::{TARGET, Workspace};

/// Builds `eviction` without any shared library, so that one file runs on every node and in a bare guest.
pub fn eviction(workspace: &Workspace) -> Result<PathBuf> {
    let built = static_binary(workspace, "eviction-user", "eviction")?;
    let wanted = workspace.target().join("release/eviction");
    std::fs::create_dir_all(workspace.target().join("release"))?;
    // A running copy must not be written into: replace it.
    let fresh = wanted.with_extension("new");
    std::fs::copy(&built, &fresh).with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&fresh, &wanted)
        .with_context(|| format!("cannot replace {}", wanted.display()))?;
    Ok(wanted)
}

/// Builds one binary of the workspace statically and says where it is.
pub fn static_binary(workspace: &Workspace, package: &str, binary: &str) -> Result<PathBuf> {
    run_logged(
        &mut command(workspace, package, binary),
        &workspace.log(&format!("build-{binary}")),
    )
    .with_context(|| {
        format!(
            "the static build of {binary} failed; the whole output: {}",
            workspace.log(&format!("build-{binary}")).display()
        )
    })?;
    Ok(workspace.target().join(TARGET).join("release").join(binary))
}

fn command(workspace: &Workspace, package: &str, binary: &str) -> Command {
    let mut command = cargo();
    command.current_dir(workspace.root());
    // `--target` keeps the flag away from proc-macros and build scripts, which cannot be static.
    command.args([
        "build",
        "--release",
        "--target",
        TARGET,
        "--package",
        package,
        "--bin",
        binary,
    ]);
    command.env(
        "CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS",
        "-Ctarget-feature=+crt-static",
    );
    command
}

/// The command as a person calls it.
pub fn run(workspace: &Workspace) -> Result<()> {
    console::say("build");
    let path = eviction(workspace)?;
    let size = std::fs::metadata(&path)?.len();
    console::step(
        "eviction",
        "built",
        &format!("{} ({} KiB, static)", path.display(), size / 1024),
    );
    Ok(())
}
