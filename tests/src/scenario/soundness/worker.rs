//! A worker process in a cgroup, told what to do and waited for.

use crate::load::worker::Command as Order;
use crate::scenario::Programs;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(super) struct Worker {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Joins `groups` (one directory per hierarchy) and waits for orders.
    pub(super) fn start(programs: &Programs, groups: &[PathBuf]) -> Result<Self> {
        let mut command = Command::new(&programs.load);
        for group in groups {
            command.arg("--cgroup").arg(group);
        }
        let mut process = command
            .arg("worker")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", programs.load.display()))?;
        let orders = process.stdin.take().context("no pipe to the worker")?;
        let answers = process.stdout.take().context("no pipe from the worker")?;
        let mut worker = Self {
            process,
            orders,
            answers: BufReader::new(answers),
        };
        worker.answer("start")?;
        Ok(worker)
    }

    /// Returns when it is done.
    pub(super) fn tell(&mut self, order: &Order) -> Result<()> {
        let line = order.to_string();
        writeln!(self.orders, "{line}").with_context(|| format!("telling the worker to {line}"))?;
        self.answer(&line)
    }

    pub(super) fn move_to(&self, group: &Path) -> Result<()> {
        let procs = group.join("cgroup.procs");
        std::fs::write(&procs, self.process.id().to_string())
            .with_context(|| format!("moving a worker to {}", procs.display()))
    }

    fn answer(&mut self, order: &str) -> Result<()> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.trim() != "ok" {
            bail!("the worker was to {order} and says {:?}", line.trim());
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
