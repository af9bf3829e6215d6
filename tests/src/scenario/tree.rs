//! A cgroup subtree of our own, on v1 (memory, and freezer as its twin) or v2, removed at the end
//! with whatever still runs in it.

use super::wait_until;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const UNIFIED: &str = "/sys/fs/cgroup";
const V1_MEMORY: &str = "/sys/fs/cgroup/memory";
const V1_FREEZER: &str = "/sys/fs/cgroup/freezer";

/// `<mount>/eviction-test-<pid>` with a memory limit.
#[derive(Debug)]
pub struct TestTree {
    v2: bool,
    name: String,
}

impl TestTree {
    pub fn create(story: &str, limit: u64) -> Result<Self> {
        let v2 = is_v2();
        if !v2
            && !Path::new(V1_MEMORY).join("memory.limit_in_bytes").exists()
            && !Path::new(V1_MEMORY).exists()
        {
            bail!(
                "neither cgroup v2 with the memory controller nor a v1 memory hierarchy is mounted"
            );
        }
        let tree = Self {
            v2,
            name: format!("eviction-test-{}-{story}", std::process::id()),
        };
        if v2 {
            fs::write(format!("{UNIFIED}/cgroup.subtree_control"), "+memory")
                .context("cannot enable the memory controller below the root cgroup")?;
        }
        for dir in tree.directories("") {
            fs::create_dir(&dir)
                .with_context(|| format!("cannot make the cgroup {}", dir.display()))?;
        }
        if v2 {
            fs::write(tree.root().join("cgroup.subtree_control"), "+memory")?;
        }
        let limit_file = if v2 {
            "memory.max"
        } else {
            "memory.limit_in_bytes"
        };
        fs::write(tree.root().join(limit_file), limit.to_string())?;
        if v2 {
            // Absent without swap accounting, and then there is no swap to hide in.
            let _ = fs::write(tree.root().join("memory.swap.max"), "0");
        }
        Ok(tree)
    }

    /// The root of the memory hierarchy, which never has a limit.
    pub fn hierarchy() -> &'static str {
        if is_v2() { UNIFIED } else { V1_MEMORY }
    }

    pub fn is_v2(&self) -> bool {
        self.v2
    }

    /// The directory in the memory hierarchy.
    pub fn root(&self) -> PathBuf {
        self.directories("").swap_remove(0)
    }

    /// Makes a child cgroup; the directories a process has to join.
    pub fn add(&self, child: &str) -> Result<Vec<PathBuf>> {
        let directories = self.directories(child);
        for dir in &directories {
            fs::create_dir(dir)
                .with_context(|| format!("cannot make the cgroup {}", dir.display()))?;
        }
        Ok(directories)
    }

    pub fn usage(&self) -> Result<u64> {
        self.number(if self.v2 {
            "memory.current"
        } else {
            "memory.usage_in_bytes"
        })
    }

    /// The highest usage so far; v2 tells it from 5.19 on.
    pub fn peak(&self) -> Option<u64> {
        self.number(if self.v2 {
            "memory.peak"
        } else {
            "memory.max_usage_in_bytes"
        })
        .ok()
    }

    /// Bytes of active file pages.
    pub fn active_file(&self) -> Result<u64> {
        let key = if self.v2 {
            "active_file"
        } else {
            "total_active_file"
        };
        keyed_line(&self.root().join("memory.stat"), key)
    }

    /// How often the OOM killer has struck anywhere in the tree.
    pub fn oom_kills(&self) -> Result<u64> {
        if self.v2 {
            return oom_kill_line(&self.root().join("memory.events"));
        }
        let mut sum = oom_kill_line(&self.root().join("memory.oom_control"))?;
        for child in children(&self.root()) {
            sum += oom_kill_line(&child.join("memory.oom_control"))?;
        }
        Ok(sum)
    }

    /// Does any process run in the child?
    pub fn is_populated(&self, child: &str) -> bool {
        !pids(&self.root().join(child)).is_empty()
    }

    fn number(&self, file: &str) -> Result<u64> {
        let path = self.root().join(file);
        let content =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(content.trim().parse()?)
    }

    fn directories(&self, child: &str) -> Vec<PathBuf> {
        let mounts: &[&str] = if self.v2 {
            &[UNIFIED]
        } else {
            &[V1_MEMORY, V1_FREEZER]
        };
        let path = |mount: &&str| Path::new(mount).join(&self.name).join(child);
        mounts
            .iter()
            .filter(|m| Path::new(m).exists())
            .map(path)
            .collect()
    }
}

impl Drop for TestTree {
    fn drop(&mut self) {
        for root in self.directories("") {
            let mut all = children(&root);
            all.push(root.clone());
            let emptied = wait_until(Duration::from_secs(10), || {
                let left: Vec<_> = all.iter().flat_map(|group| pids(group)).collect();
                for pid in &left {
                    let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
                }
                left.is_empty().then_some(())
            });
            // The last exiting task may still hold the directory for a moment (EBUSY).
            let removed = wait_until(Duration::from_secs(5), || {
                for group in &all {
                    let _ = fs::remove_dir(group);
                }
                (!root.exists()).then_some(())
            });
            if emptied.is_none() || removed.is_none() {
                eprintln!(
                    "warning: cgroup {} could not be removed; remove it by hand",
                    root.display()
                );
            }
        }
    }
}

fn is_v2() -> bool {
    fs::read_to_string(format!("{UNIFIED}/cgroup.controllers"))
        .is_ok_and(|controllers| controllers.split_whitespace().any(|c| c == "memory"))
}

fn children(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
        .map(|e| e.path())
        .collect()
}

fn pids(group: &Path) -> Vec<i32> {
    let content = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    content
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

fn oom_kill_line(file: &Path) -> Result<u64> {
    keyed_line(file, "oom_kill")
}

fn keyed_line(file: &Path, key: &str) -> Result<u64> {
    let content =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let value = content
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(' '));
    let Some(value) = value else {
        bail!("{} has no {key} line", file.display())
    };
    Ok(value.parse()?)
}
