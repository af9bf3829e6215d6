//! `cargo xtask build`: the static release binary at `target/release/eviction`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::console;
use crate::process::{cargo, run_logged};
use crate::workspace::{TARGET, Workspace};

/// Programs of the suites beside `eviction`.
const TEST_PROGRAMS: [&str; 2] = ["eviction-load", "eviction-scenario"];

/// Builds `eviction` without any shared library, so that one file runs on every node and in a bare guest.
pub fn eviction(workspace: &Workspace) -> Result<PathBuf> {
    let mut built = static_binaries(workspace, "eviction-user", &["eviction"])?;
    built.pop().context("one was asked for")
}

/// Builds the programs of the suites the same way, beside it; returns their folder.
pub fn all_programs(workspace: &Workspace) -> Result<PathBuf> {
    eviction(workspace)?;
    static_binaries(workspace, "eviction-tests", &TEST_PROGRAMS)?;
    Ok(output(workspace))
}

fn output(workspace: &Workspace) -> PathBuf {
    workspace.target().join("release")
}

/// Builds binaries of one package statically and copies them to where cargo would put ordinary ones.
fn static_binaries(
    workspace: &Workspace,
    package: &str,
    binaries: &[&str],
) -> Result<Vec<PathBuf>> {
    let log = workspace.log(&format!("build-{package}"));
    run_logged(&mut command(workspace, package, binaries), &log).with_context(|| {
        format!(
            "the static build of {package} failed; the whole output: {}",
            log.display()
        )
    })?;
    std::fs::create_dir_all(output(workspace))?;
    binaries
        .iter()
        .map(|binary| place(workspace, binary))
        .collect()
}

fn place(workspace: &Workspace, binary: &str) -> Result<PathBuf> {
    let built = workspace.target().join(TARGET).join("release").join(binary);
    let wanted = output(workspace).join(binary);
    // A running copy must not be written into: replace it.
    let fresh = wanted.with_extension("new");
    std::fs::copy(&built, &fresh).with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&fresh, &wanted)
        .with_context(|| format!("cannot replace {}", wanted.display()))?;
    Ok(wanted)
}

fn command(workspace: &Workspace, package: &str, binaries: &[&str]) -> Command {
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
    ]);
    command.args(binaries.iter().flat_map(|binary| ["--bin", binary]));
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
