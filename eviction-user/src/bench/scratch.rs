//! cgroups of our own for one benchmark, on v1 (memory, and its twins in the freezer) or v2; gone when it ends.

use super::BenchError;
use crate::sys::cgroup::{CgroupDir, Hierarchy, Version};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The last exiting task may still hold its cgroup for a moment (EBUSY).
const TRIES: u32 = 100;
const BETWEEN_TRIES: Duration = Duration::from_millis(20);

pub(super) struct Scratch {
    hierarchy: Hierarchy,
    root: CgroupDir,
    /// In the order in which they were made.
    made: Vec<PathBuf>,
}

impl Scratch {
    /// `<mount>/eviction-bench-<pid>`, with a memory limit in bytes if there is to be one.
    pub(super) fn create(hierarchy: &Hierarchy, limit: Option<u64>) -> Result<Self, BenchError> {
        let name = format!("eviction-bench-{}", std::process::id());
        if hierarchy.version == Version::V2 {
            CgroupDir::open(&hierarchy.mount)?.write("cgroup.subtree_control", "+memory")?;
        }
        let made = make(hierarchy, Path::new(&name))?;
        let root = CgroupDir::open(&hierarchy.mount.join(&name))?;
        let scratch = Self {
            hierarchy: hierarchy.clone(),
            root,
            made,
        };
        let limit_file = match hierarchy.version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => {
                scratch.root.write("cgroup.subtree_control", "+memory")?;
                "memory.max"
            }
        };
        if let Some(limit) = limit {
            scratch.root.write(limit_file, &limit.to_string())?;
        }
        Ok(scratch)
    }

    pub(super) fn root(&self) -> &CgroupDir {
        &self.root
    }

    /// Makes a child cgroup: the directories that a process has to join.
    pub(super) fn add(&mut self, child: &str) -> Result<Vec<PathBuf>, BenchError> {
        let made = make(&self.hierarchy, &Path::new(&self.root.name()).join(child))?;
        self.made.extend(made.iter().cloned());
        Ok(made)
    }
}

fn make(hierarchy: &Hierarchy, name: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let mounts = std::iter::once(&hierarchy.mount).chain(&hierarchy.freezer);
    let directories: Vec<_> = mounts.map(|mount| mount.join(name)).collect();
    for directory in &directories {
        std::fs::create_dir(directory).map_err(|source| BenchError::File {
            what: "make the cgroup",
            path: directory.clone(),
            source,
        })?;
    }
    Ok(directories)
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for directory in self.made.iter().rev() {
            let removed = (0..TRIES).any(|_| {
                let removed = std::fs::remove_dir(directory);
                if removed.is_err() {
                    std::thread::sleep(BETWEEN_TRIES);
                }
                removed.is_ok()
            });
            if !removed {
                tracing::warn!(cgroup = %directory.display(), "it cannot be removed; remove it by hand");
            }
        }
    }
}
