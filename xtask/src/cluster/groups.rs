//! The cluster's own cgroup, in every hierarchy of this machine. All that the cluster ever starts is in it, also what outlives
//! its parent (the runtime's shims, the pods), so ending what is in it ends the cluster and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::clock::Stopwatch;

const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub(super) struct Groups {
    /// One directory per hierarchy.
    places: Vec<PathBuf>,
}

impl Groups {
    /// In the hierarchies that are mounted here.
    pub(super) fn named(name: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("cannot read the mounts")?;
        let places = hierarchies(&mounts)
            .into_iter()
            .map(|mount| mount.join(name))
            .collect();
        Ok(Self { places })
    }

    pub(super) fn make(&self) -> Result<()> {
        ensure!(
            !self.places.is_empty(),
            "no cgroup hierarchy is mounted here"
        );
        for place in &self.places {
            let system = place.join("system");
            fs::create_dir_all(&system)
                .with_context(|| format!("cannot make {}", system.display()))?;
            // A new cpuset of cgroup v1 has no CPU and no memory, and nobody may enter it.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                for below in [place, &system] {
                    inherit(below, file)?;
                }
            }
        }
        Ok(())
    }

    /// For the components; pods are beside it, where the kubelet puts them.
    pub(super) fn entrances(&self) -> Vec<PathBuf> {
        self.places
            .iter()
            .map(|place| place.join("system/cgroup.procs"))
            .collect()
    }

    /// In the hierarchy of memory.
    pub(super) fn memory(&self) -> Result<&Path> {
        let has_it = |place: &&PathBuf| {
            // By the names of cgroup v1 and v2.
            ["memory.usage_in_bytes", "memory.current"]
                .iter()
                .any(|file| place.join(file).is_file())
        };
        let found = self.places.iter().find(has_it);
        found
            .map(PathBuf::as_path)
            .context("the cluster's cgroup has no memory controller")
    }

    /// The id of a component's process.
    pub(super) fn process(&self, program: &str) -> Result<i32> {
        let system = self.places.first().map(|place| place.join("system"));
        let of = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            // The kernel keeps 15 letters of it.
            name.is_ok_and(|name| program.starts_with(name.trim()))
        };
        let found = system.and_then(|system| processes(&system).into_iter().find(of));
        found.with_context(|| format!("{program} does not run"))
    }

    /// Ends everything in it, and removes it.
    pub(super) fn remove(&self) -> Result<()> {
        let clock = Stopwatch::start();
        loop {
            let left: BTreeSet<i32> = self.places.iter().flat_map(|p| processes(p)).collect();
            if left.is_empty() {
                break;
            }
            ensure!(
                clock.elapsed() < PATIENCE,
                "processes {left:?} do not end although they were killed"
            );
            for pid in left {
                // One that has just ended is what is wanted.
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            thread::sleep(POLL);
        }
        for place in &self.places {
            remove_tree(place).with_context(|| format!("cannot remove {}", place.display()))?;
        }
        Ok(())
    }
}

/// Where the hierarchies are mounted; v2 beside v1 only where it has controllers of its own.
fn hierarchies(mounts: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        if let (Some(place), Some("cgroup" | "cgroup2")) = (fields.next(), fields.next()) {
            let place = PathBuf::from(place);
            if !found.contains(&place) {
                found.push(place);
            }
        }
    }
    found
}

/// Takes over the parent's value where there is none.
fn inherit(group: &Path, file: &str) -> Result<()> {
    let own = group.join(file);
    let is_empty = fs::read_to_string(&own).is_ok_and(|value| value.trim().is_empty());
    let above = group.parent().map(|parent| parent.join(file));
    if let Some(value) = above.and_then(|above| fs::read_to_string(above).ok())
        && is_empty
    {
        fs::write(&own, value.trim()).with_context(|| format!("cannot write {}", own.display()))?;
    }
    Ok(())
}

fn processes(group: &Path) -> Vec<i32> {
    let own = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let mut all: Vec<i32> = own.lines().filter_map(|pid| pid.parse().ok()).collect();
    all.extend(children(group).iter().flat_map(|child| processes(child)));
    all
}

fn children(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.map(|entry| entry.path()).collect()
}

fn remove_tree(group: &Path) -> io::Result<()> {
    for child in children(group) {
        remove_tree(&child)?;
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hierarchy_is_found_once() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(
            hierarchies(mounts),
            ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"].map(PathBuf::from)
        );
    }
}
