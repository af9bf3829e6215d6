//! A load in a child cgroup of the tree.

use super::{Programs, TestTree, wait_until};
use crate::load::{Progress, ProgressPage};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

pub struct Workload {
    pub name: String,
    process: Child,
    progress: Progress,
}

impl Workload {
    /// Starts `eviction-load` with `args` (such as `["hold", "1048576"]`) in the child cgroup `name`.
    /// `mark_at`: the progress at which the load is to take the time.
    pub fn start(
        programs: &Programs,
        tree: &TestTree,
        folder: &Path,
        name: &str,
        args: &[&str],
        mark_at: u64,
    ) -> Result<Self> {
        let groups = tree.add(name)?;
        let page = folder.join(format!("{name}.progress"));
        let progress = Progress::open(&page)?;
        progress.page().mark_at.store(mark_at, Ordering::Relaxed);
        let mut command = Command::new(&programs.load);
        for group in &groups {
            command.arg("--cgroup").arg(group);
        }
        let process = command
            .arg("--progress")
            .arg(&page)
            .args(args)
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", programs.load.display()))?;
        Ok(Self {
            name: name.to_owned(),
            process,
            progress,
        })
    }

    pub fn page(&self) -> &ProgressPage {
        self.progress.page()
    }

    pub fn done(&self) -> u64 {
        self.page().done.load(Ordering::Acquire)
    }

    /// When the load came to its mark.
    pub fn crossing_ns(&self) -> Option<u64> {
        Some(self.page().mark_ns.load(Ordering::Acquire)).filter(|&ns| ns > 0)
    }

    /// Waits until the load has come to `done`.
    pub fn reaches(&mut self, done: u64, limit: Duration) -> Result<()> {
        if wait_until(limit, || (self.done() >= done).then_some(())).is_none() {
            let state = if self.is_alive() {
                "it still runs"
            } else {
                "it has ended"
            };
            bail!(
                "the load {} came to {} of {done} within {limit:?} ({state})",
                self.name,
                self.done()
            );
        }
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The signal that ended it; `None`: it still runs, or ended by itself.
    pub fn ended_by(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        self.process.try_wait().ok().flatten()?.signal()
    }

    pub fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // Fails only when the process has ended already; waiting then only collects it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
