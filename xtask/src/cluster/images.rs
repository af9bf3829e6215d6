//! The images of the tests' pods, both of them our own load generator: no registry is asked for any.

use std::path::Path;

use anyhow::Result;

use super::Cluster;
use super::parts::Parts;
use crate::image;
use crate::workspace::Workspace;

/// Of a sandbox: it does nothing.
pub(super) const PAUSE: &str = "localhost/pause:1";
/// Of a container: it does what its arguments say, as `eviction-load` does.
pub const LOAD: &str = "localhost/load:1";

/// `load`: the static `eviction-load`.
pub(super) fn import(
    workspace: &Workspace,
    cluster: &Cluster,
    parts: &Parts,
    load: &Path,
) -> Result<()> {
    let program = cluster.folder.join("load");
    image::strip(workspace, load, &program)?;
    let program = std::fs::read(program)?;
    let nothing: &[&str] = &["hold", "0"];
    for (name, arguments) in [(PAUSE, nothing), (LOAD, &[])] {
        let archive = cluster.folder.join("image.tar");
        image::write(&archive, &program, name, arguments)?;
        cluster.import(parts, &archive)?;
    }
    Ok(())
}
