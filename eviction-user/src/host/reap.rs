//! Frees the memory of killed processes from a thread of its own: process_mrelease() blocks while it
//! works (tens of milliseconds for a GiB), and the fast thread has to go on looking.

use crate::sys::pidfd::{PidFd, has_process_mrelease};
use std::io;
use std::sync::mpsc::{Sender, channel};

#[derive(Debug)]
pub(super) struct Reaper {
    queue: Option<Sender<Vec<PidFd>>>,
}

impl Reaper {
    pub(super) fn start() -> io::Result<Self> {
        if !has_process_mrelease() {
            return Ok(Self { queue: None });
        }
        let (queue, work) = channel::<Vec<PidFd>>();
        std::thread::Builder::new()
            .name("eviction-reap".into())
            .spawn(move || {
                for process in work.into_iter().flatten() {
                    // The process may have freed everything itself by now (ESRCH), or share its memory
                    // with one that lives (EINVAL): in both cases there is nothing left to do.
                    let _ = process.release_memory();
                }
            })?;
        Ok(Self { queue: Some(queue) })
    }

    pub(super) fn release(&self, processes: Vec<PidFd>) {
        if let Some(queue) = &self.queue {
            // The thread ends only when the sender does.
            let _ = queue.send(processes);
        }
    }
}
