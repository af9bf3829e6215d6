//! Processes that do nothing but exist.

use super::{ProgressPage, keep_pace, now_ns};
use nix::unistd::{ForkResult, fork, pause};
use std::io;

/// Forks `count` processes at `rate` a second (0: as fast as it goes), then waits to be killed. They outlive it.
pub fn fork_processes(
    count: u64,
    rate: u64,
    progress: &ProgressPage,
) -> io::Result<std::convert::Infallible> {
    let began = now_ns();
    for done in 1..=count {
        // SAFETY: this process has one thread, so its child may go on as it likes.
        match unsafe { fork() }? {
            ForkResult::Child => loop {
                pause();
            },
            ForkResult::Parent { .. } => progress.advance(done, now_ns()),
        }
        if rate > 0 {
            keep_pace(began, done, rate);
        }
    }
    loop {
        std::thread::park();
    }
}
