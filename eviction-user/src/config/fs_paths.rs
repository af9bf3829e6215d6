//! The paths that say which file systems a host's disk signals are about.

use crate::model::{Signal, Threshold};
use std::path::PathBuf;

/// As given by `--nodefs`, `--imagefs` and `--containerfs`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FsPaths {
    pub nodefs: Option<PathBuf>,
    pub imagefs: Option<PathBuf>,
    pub containerfs: Option<PathBuf>,
}

impl FsPaths {
    /// What is not named here is where `others` say.
    pub(super) fn or(self, others: &Self) -> Self {
        Self {
            nodefs: self.nodefs.or_else(|| others.nodefs.clone()),
            imagefs: self.imagefs.or_else(|| others.imagefs.clone()),
            containerfs: self.containerfs.or_else(|| others.containerfs.clone()),
        }
    }

    /// With the flags.
    pub fn named(&self) -> [(&'static str, &Option<PathBuf>); 3] {
        [
            ("--nodefs", &self.nodefs),
            ("--imagefs", &self.imagefs),
            ("--containerfs", &self.containerfs),
        ]
    }

    /// The flag without which a signal cannot be observed.
    pub(super) fn missing(&self, signal: Signal) -> Option<&'static str> {
        let needed = flag(signal)?;
        let named = self.named();
        let is_missing = named
            .iter()
            .any(|(flag, path)| *flag == needed && path.is_none());
        is_missing.then_some(needed)
    }

    /// Flags that no threshold asks for.
    pub(super) fn idle(&self, thresholds: &[Threshold]) -> impl Iterator<Item = &'static str> {
        let given = self.named().into_iter().filter(|(_, path)| path.is_some());
        given
            .map(|(flag, _)| flag)
            .filter(|given| !thresholds.iter().any(|t| flag(t.signal) == Some(given)))
    }
}

/// The flag that names a signal's file system; `None`: it is about none.
pub(super) fn flag(signal: Signal) -> Option<&'static str> {
    match signal {
        Signal::NodeFsAvailable | Signal::NodeFsInodesFree => Some("--nodefs"),
        Signal::ImageFsAvailable | Signal::ImageFsInodesFree => Some("--imagefs"),
        Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree => Some("--containerfs"),
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => None,
    }
}
