//! A part of the cluster that does not answer for a while.

use anyhow::Result;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::node::Node;

/// Halts it as long as this lives.
pub(crate) struct Halted(Pid);

impl Halted {
    /// `name`: of its program.
    pub(crate) fn program(node: &Node, name: &str) -> Result<Self> {
        let pid = Pid::from_raw(node.cluster.process(name)?);
        kill(pid, Signal::SIGSTOP)?;
        Ok(Self(pid))
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        // It was there a moment ago, and nobody else ends it.
        let _ = kill(self.0, Signal::SIGCONT);
    }
}
