//! `cargo xtask demo`: set-up, build, then the demo's stories; whatever happens, they clean up.

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::build;
use crate::setup::{self, Scope};
use crate::workspace::Workspace;

/// `output`: `text` or `json`, as `eviction-scenario` takes it.
pub fn run(workspace: &Workspace, output: &str) -> Result<ExitCode> {
    setup::ensure(workspace, Scope::Build)?;
    let programs = build::all_programs(workspace)?;
    // Ctrl-C reaches the stories too; this process stays until they have cleaned up.
    let told = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&told))?;
    }
    let program = programs.join("eviction-scenario");
    let mut stories = Command::new(&program)
        .args(["demo", "--output", output])
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    let mut passed_on = false;
    let status = loop {
        if let Some(status) = stories.try_wait()? {
            break status;
        }
        if told.load(Ordering::Relaxed) && !passed_on {
            passed_on = true;
            // A signal sent to this process alone has to reach them as well; twice does no harm.
            kill(Pid::from_raw(i32::try_from(stories.id())?), Signal::SIGTERM)?;
        }
        thread::sleep(Duration::from_millis(20));
    };
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .map_or(ExitCode::FAILURE, ExitCode::from))
}
