//! A workload that uses up something else than memory as fast as it can, and can be halted between two crossings.

use super::helper::{Helper, Loop, Task};
use super::{BenchError, cpus};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Storm {
    /// Files made and removed.
    Inodes,
    /// Processes made and waited for.
    Forks,
}

impl Storm {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inodes => "inodes",
            Self::Forks => "forks",
        }
    }

    /// How far ahead the product's line is armed meanwhile: near enough for many events a second.
    pub(super) const fn step(self) -> i64 {
        match self {
            Self::Inodes => 100,
            Self::Forks => 10,
        }
    }

    fn times(self, directory: PathBuf) -> Loop {
        match self {
            Self::Inodes => Loop::CreateFiles {
                directory,
                count: 2000,
            },
            Self::Forks => Loop::Forks { count: 2000 },
        }
    }
}

/// One process for each CPU. Ended when this is dropped.
pub(super) struct Raging {
    helpers: Vec<Helper>,
}

impl Raging {
    /// Halted at first. The files are made in directories of their own within `folder`.
    pub(super) fn start(
        storm: Storm,
        cgroups: &[PathBuf],
        folder: &Path,
    ) -> Result<Self, BenchError> {
        let cpus = cpus::allowed().map_err(BenchError::system("list the CPUs"))?;
        let start = |number: usize| {
            let directory = folder.join(number.to_string());
            std::fs::create_dir(&directory).map_err(|source| BenchError::File {
                what: "make the directory",
                path: directory.clone(),
                source,
            })?;
            let mut helper = Helper::start(cgroups)?;
            helper.tell(&Task::Storm(storm.times(directory)))?;
            helper.halt(true)?;
            Ok(helper)
        };
        let helpers = (0..cpus.len())
            .map(start)
            .collect::<Result<_, BenchError>>();
        Ok(Self { helpers: helpers? })
    }

    pub(super) fn rage(&self, on: bool) -> Result<(), BenchError> {
        self.helpers.iter().try_for_each(|helper| helper.halt(!on))
    }
}
