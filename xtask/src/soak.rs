//! `cargo xtask soak`: long random runs in the guests, one machine after the other. The suite `vm` runs the same for a short
//! while, from a fixed seed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;

use crate::build;
use crate::clock::show;
use crate::console;
use crate::setup::{self, Kernel, Scope};
use crate::vm::{self, CgroupVersion, Guest, Line, MACHINES, image};
use crate::workspace::Workspace;

/// A folder with the static programs, built elsewhere; without it they are built here.
const PROGRAMS: &str = "EVICTION_PROGRAMS";
/// A crossing under emulation on a busy machine takes a second or two.
const PATIENCE_PER_CROSSING: Duration = Duration::from_secs(20);
const DISK: u64 = 64 << 20;

#[derive(Clone, Debug)]
pub struct Soak {
    /// Only this kernel series.
    pub kernel: Option<String>,
    /// Crossings of each line.
    pub crossings: u32,
    pub seed: u64,
}

/// Runs it on each machine; fails when one of them does.
pub fn run(workspace: &Workspace, soak: &Soak) -> Result<ExitCode> {
    setup::ensure(workspace, Scope::Guests)?;
    let programs = match std::env::var_os(PROGRAMS) {
        Some(folder) => PathBuf::from(folder),
        None => build::all_programs(workspace)?,
    };
    let mut failed = 0;
    for (series, cgroup) in MACHINES {
        if soak.kernel.as_ref().is_some_and(|only| only != series) {
            continue;
        }
        console::say(&format!("kernel {series}, cgroup {cgroup}"));
        match in_guest(workspace, soak, &programs, series, cgroup) {
            Ok(0) => {}
            Ok(code) => {
                console::say(&format!("  FAILED: it ended with {code}"));
                failed += 1;
            }
            Err(error) => {
                console::say(&format!("  FAILED: {error:#}"));
                failed += 1;
            }
        }
    }
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn in_guest(
    workspace: &Workspace,
    soak: &Soak,
    programs: &std::path::Path,
    series: &str,
    cgroup: CgroupVersion,
) -> Result<i32> {
    let folder = tempfile::tempdir()?;
    let (disk, swap) = (folder.path().join("disk"), folder.path().join("swap"));
    image::ext4(&disk, DISK, "4096")?;
    image::swap(&swap, DISK)?;
    let command = [
        "eviction-scenario",
        "soundness",
        "--crossings",
        &soak.crossings.to_string(),
        "--seed",
        &soak.seed.to_string(),
        "--disk",
        "/dev/vda",
        "--swap",
        "/dev/vdb",
    ];
    let command = command.map(str::to_owned).to_vec();
    let mut guest = Guest::new(Kernel::find(workspace, series)?, cgroup, command);
    guest.files = ["eviction", "eviction-load", "eviction-scenario"]
        .map(|name| (programs.join(name), format!("/bin/{name}")))
        .to_vec();
    guest.disks = vec![disk, swap];
    // The watched cgroup's limit, as much beside it, and the programs, which lie in memory, too: 1 GiB was too little once in some
    // 700 crossings.
    guest.memory_mib = 1536;
    guest.timeout = Duration::from_secs(120) + PATIENCE_PER_CROSSING * soak.crossings;
    let finished = vm::run(workspace, &guest, &mut |line| match line {
        Line::Output(text) | Line::Notice(text) => console::say(&format!("  {text}")),
    })?;
    console::say(&format!("  in {}", show(finished.elapsed)));
    Ok(finished.code)
}
