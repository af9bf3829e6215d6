//! Processes that come and go: their stacks, page tables and copies are charged too.

use super::regions::Regions;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use std::io;

/// All of them are there at once before the first is waited for.
pub(super) fn storm(children: usize, bytes: usize) -> io::Result<()> {
    let mut running = Vec::new();
    for _ in 0..children {
        // SAFETY: this process has one thread, so the child may do whatever its parent may.
        match unsafe { fork() }? {
            ForkResult::Parent { child } => running.push(child),
            ForkResult::Child => {
                let touched = Regions::default().touch(bytes);
                // SAFETY: ends the child at once; its parent's exit handlers and buffers are not the child's to run.
                unsafe { nix::libc::_exit(i32::from(touched.is_err())) }
            }
        }
    }
    for child in running {
        waitpid(child, None)?;
    }
    Ok(())
}
