//! Where it happens: cgroups with workers in them, files on a disk and in memory.

use super::Settings;
use super::worker::Worker;
use crate::load::worker::Command;
use crate::scenario::{Disk, Programs, TestTree, wait_until};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Child cgroups of the watched one.
const CHILDREN: [&str; 2] = ["a", "b"];
const SHARED_MEMORY: &str = "/dev/shm";
/// So much is left to a child whose limit is lowered.
const SPARED: u64 = 1 << 20;
/// More than a worker can hold.
const ALL_KIB: usize = 1 << 30;

pub(super) struct Stage {
    pub(super) tree: TestTree,
    programs: Programs,
    homes: Vec<Vec<PathBuf>>,
    /// A cgroup that is not below the watched one.
    outside: Vec<PathBuf>,
    _elsewhere: TestTree,
    pub(super) workers: Vec<Worker>,
    /// Those that are not below the watched cgroup at the moment.
    away: BTreeSet<usize>,
    /// Files that must go before the next approach.
    files: Vec<PathBuf>,
    disk: Option<Disk>,
    swap: Option<PathBuf>,
    swap_is_on: bool,
    removed: usize,
    _folder: tempfile::TempDir,
}

impl Stage {
    pub(super) fn set(programs: &Programs, settings: &Settings) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let tree = TestTree::create("soundness", settings.limit)?;
        let mut homes = Vec::new();
        for child in CHILDREN {
            homes.push(tree.add(child)?);
        }
        // Not the root cgroup: what is charged there is charged to nobody, which is the heartbeat's to find.
        let elsewhere = TestTree::create("soundness-elsewhere", settings.limit)?;
        let outside = elsewhere.add("outside")?;
        let workers = homes
            .iter()
            .map(|home| Worker::start(programs, home))
            .collect::<Result<_>>()?;
        let disk = settings
            .disk
            .as_deref()
            .map(|image| Disk::mount(image, folder.path()))
            .transpose()?;
        Ok(Self {
            tree,
            outside,
            _elsewhere: elsewhere,
            programs: programs.clone(),
            homes,
            workers,
            away: BTreeSet::new(),
            files: Vec::new(),
            disk,
            swap: settings.swap.clone(),
            swap_is_on: false,
            removed: 0,
            _folder: folder,
        })
    }

    pub(super) fn has_disk(&self) -> bool {
        self.disk.is_some()
    }

    /// Gives files back, and so much of the anonymous memory. What is held elsewhere goes as a whole: the watched cgroup's figure
    /// does not show it, so nothing else would ever ask for it.
    pub(super) fn clear(&mut self, bytes: u64) -> Result<()> {
        let each = (bytes / 1024) as usize / self.workers.len() + 1;
        for (number, worker) in self.workers.iter_mut().enumerate() {
            let kib = if self.away.contains(&number) {
                ALL_KIB
            } else {
                each
            };
            worker.tell(&Command::Release { kib })?;
        }
        for file in self.files.drain(..) {
            std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        }
        Ok(())
    }

    /// A file in memory (tmpfs) or on the disk, that [`Self::clear`] removes.
    pub(super) fn file(&mut self, in_memory: bool, number: usize) -> PathBuf {
        let folder = match &self.disk {
            Some(disk) if !in_memory => disk.path(),
            _ => Path::new(SHARED_MEMORY),
        };
        let path = folder.join(format!("eviction-{}-{number}", std::process::id()));
        if !self.files.contains(&path) {
            self.files.push(path.clone());
        }
        path
    }

    /// Files that hold something by now.
    pub(super) fn written(&self) -> &[PathBuf] {
        &self.files
    }

    /// The limit of the watched cgroup.
    pub(super) fn limit(&self, bytes: u64) -> Result<()> {
        let file = if self.tree.is_v2() {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        let path = self.tree.root().join(file);
        std::fs::write(&path, bytes.to_string())
            .with_context(|| format!("writing {}", path.display()))
    }

    /// Moves a worker to another child, or out of the watched cgroup and back.
    pub(super) fn migrate(&mut self, worker: usize, to: usize) -> Result<()> {
        if to < self.homes.len() {
            self.away.remove(&worker);
        } else {
            self.away.insert(worker);
        }
        let home = self.homes.get(to).unwrap_or(&self.outside);
        home.iter()
            .try_for_each(|group| self.workers[worker].move_to(group))
    }

    /// Lowers a child's limit below its use, which reclaims or swaps, and takes the limit away again.
    pub(super) fn squeeze(&mut self, child: usize) -> Result<()> {
        let group = &self.homes[child][0];
        let (usage, limit, none) = if self.tree.is_v2() {
            ("memory.current", "memory.high", "max")
        } else {
            ("memory.usage_in_bytes", "memory.limit_in_bytes", "-1")
        };
        let used = super::oracle::number(&group.join(usage))?;
        let squeezed = used.saturating_sub(SPARED).max(SPARED).to_string();
        // v1 refuses (EBUSY) what it cannot reclaim to; it has reclaimed what it could.
        let _ = std::fs::write(group.join(limit), squeezed);
        std::fs::write(group.join(limit), none)?;
        Ok(())
    }

    /// A worker in a cgroup of its own that leaves memory behind when both are gone.
    pub(super) fn remove_a_cgroup(&mut self, kib: usize) -> Result<()> {
        self.removed += 1;
        let home = self.tree.add(&format!("removed-{}", self.removed))?;
        let path = self.file(true, 1000 + self.removed);
        let mut worker = Worker::start(&self.programs, &home)?;
        worker.tell(&Command::Write { path, kib })?;
        worker.tell(&Command::Touch { kib })?;
        drop(worker);
        for group in home {
            // The last task may hold it for a moment (EBUSY).
            let gone = wait_until(Duration::from_secs(20), || std::fs::remove_dir(&group).ok());
            gone.with_context(|| format!("removing {}", group.display()))?;
        }
        Ok(())
    }

    /// Turns swap on or off, where there is a device for it.
    pub(super) fn toggle_swap(&mut self) -> Result<()> {
        let Some(device) = &self.swap else {
            return Ok(());
        };
        let program = if self.swap_is_on { "swapoff" } else { "swapon" };
        let done = std::process::Command::new(program).arg(device).status()?;
        anyhow::ensure!(
            done.success(),
            "{program} {} failed: {done}",
            device.display()
        );
        self.swap_is_on = !self.swap_is_on;
        let limit = self.tree.root().join("memory.swap.max");
        if limit.exists() {
            std::fs::write(limit, if self.swap_is_on { "max" } else { "0" })?;
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if self.swap_is_on
            && let Err(error) = self.toggle_swap()
        {
            eprintln!("warning: {error:#}");
        }
        for file in self.files.drain(..) {
            let _ = std::fs::remove_file(file);
        }
        self.workers.clear();
        // The disk is unmounted before its folder goes.
        self.disk = None;
    }
}
