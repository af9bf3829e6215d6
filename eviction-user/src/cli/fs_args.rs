//! Where the file systems of the disk signals are.

use crate::model::Signal;
use clap::Args;
use std::path::{Path, PathBuf};

#[derive(Debug, Default, Args)]
pub(super) struct FsArgs {
    /// A path on the file system that nodefs.available and nodefs.inodesFree are about. For pods: the
    /// kubelet's root directory, and that is the default where its process is to be seen.
    #[arg(long, value_name = "PATH")]
    pub(super) nodefs: Option<PathBuf>,
    /// The same for imagefs.available and imagefs.inodesFree. For pods: a directory of the container
    /// runtime, and what that says itself is the default.
    #[arg(long, value_name = "PATH")]
    pub(super) imagefs: Option<PathBuf>,
    /// The same for containerfs.available and containerfs.inodesFree. As in the kubelet these take the
    /// limits of nodefs or imagefs, unless nodefs and imagefs are one and containerfs is another. For pods:
    /// where writable layers lie, if the runtime keeps them apart from images, and says so by default.
    #[arg(long, value_name = "PATH")]
    pub(super) containerfs: Option<PathBuf>,
}

impl FsArgs {
    pub(super) fn of(&self, signal: Signal) -> Option<&Path> {
        let path = match signal {
            Signal::NodeFsAvailable | Signal::NodeFsInodesFree => &self.nodefs,
            Signal::ImageFsAvailable | Signal::ImageFsInodesFree => &self.imagefs,
            Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree => &self.containerfs,
            _ => &None,
        };
        path.as_deref()
    }
}
