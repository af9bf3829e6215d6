//! The images, put into the runtime's store on the guest's disk before it boots: emulated, that would take half a minute.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;

use anyhow::{Context, Result, ensure};

use super::super::components::{self, Component};
use super::super::places::Places;
use super::super::{Cluster, PATIENCE, POLL, Parts, files};
use crate::clock::Stopwatch;
use crate::process::capture;

/// `folder`: for what the runtime needs while it runs here.
pub(super) fn fill(
    cluster: &Cluster,
    parts: &Parts,
    root: &Path,
    folder: &Path,
    archives: &[PathBuf],
) -> Result<()> {
    let places = Places::of_stock(root, folder);
    let config = folder.join("stock.toml");
    let text = places.containerd_config(&parts.program("runc")?);
    files::write(&config, 0o644, &text)?;
    let runtime = Runtime(Component::containerd(&config).start(cluster, parts)?);
    let ctr = |arguments: &[&str]| -> Result<String> {
        let mut command = components::inside(cluster, parts, &parts.program("ctr")?)?;
        command.env("CONTAINERD_ADDRESS", places.socket());
        Ok(capture(command.args(arguments))?)
    };
    let clock = Stopwatch::start();
    while ctr(&["version"]).is_err() {
        ensure!(
            clock.elapsed() < PATIENCE,
            "containerd does not answer; its log is in {}",
            cluster.folder.join("logs").display()
        );
        thread::sleep(POLL);
    }
    for archive in archives {
        let path = archive.to_str().context("the folder's name is not UTF-8")?;
        ctr(&["images", "import", path])?;
    }
    drop(runtime);
    Ok(())
}

/// Ended when it has done its work, or could not; its store bears that at any moment.
struct Runtime(Child);

impl Drop for Runtime {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
