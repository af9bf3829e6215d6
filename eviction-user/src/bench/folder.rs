//! A directory of a benchmark's own, gone when it ends.

use super::BenchError;
use std::path::{Path, PathBuf};

pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make(parent: &Path) -> Result<Self, BenchError> {
        let path = parent.join(format!("eviction-bench-{}", std::process::id()));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(BenchError::File {
                what: "make the directory",
                path,
                source,
            }),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "it cannot be removed; remove it by hand");
        }
    }
}
