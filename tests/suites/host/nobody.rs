//! The program in the hands of a user without any privilege.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use eviction_tests::suite;
use tempfile::TempDir;

pub(crate) const NOBODY: u32 = 65_534;

/// A copy of `eviction` that everybody may run: the build folder may lie where others cannot enter.
pub(crate) struct Nobody(TempDir);

impl Nobody {
    pub(crate) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::copy(
            suite::programs()?.join("eviction"),
            folder.path().join("eviction"),
        )?;
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755))?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("eviction")
    }

    pub(crate) fn eviction(&self) -> Command {
        let mut command = Command::new(self.path());
        command.current_dir("/").uid(NOBODY).gid(NOBODY);
        command
    }
}
