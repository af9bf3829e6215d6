//! The images of the tests' pods, both of them our own load generator: no registry is asked for any.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Cluster;
use super::parts::Parts;
use crate::image;
use crate::workspace::Workspace;

/// Of a sandbox: it does nothing.
pub(super) const PAUSE: &str = "localhost/pause:1";
/// Of a container: it does what its arguments say, as `eviction-load` does.
pub const LOAD: &str = "localhost/load:1";

/// The archives of both in `folder`. `load`: the static `eviction-load`.
pub(super) fn archives(workspace: &Workspace, load: &Path, folder: &Path) -> Result<[PathBuf; 2]> {
    let stripped = folder.join("load");
    image::strip(workspace, load, &stripped)?;
    let program = std::fs::read(&stripped)?;
    std::fs::remove_file(stripped)?;
    let archives = ["pause.tar", "load.tar"].map(|file| folder.join(file));
    let nothing: &[&str] = &["hold", "0"];
    for (archive, (name, arguments)) in archives.iter().zip([(PAUSE, nothing), (LOAD, &[])]) {
        image::write(archive, &program, name, arguments)?;
    }
    Ok(archives)
}

pub(super) fn import(
    workspace: &Workspace,
    cluster: &Cluster,
    parts: &Parts,
    load: &Path,
) -> Result<()> {
    for archive in archives(workspace, load, &cluster.folder)? {
        cluster.import(parts, &archive)?;
    }
    Ok(())
}
