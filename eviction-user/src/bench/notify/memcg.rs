//! cgroup v1's own notification: an eventfd registered for a usage in `cgroup.event_control`.

use super::listener::{Ears, wait_for};
use crate::bench::BenchError;
use crate::sys::cgroup::CgroupDir;
use crate::sys::{clock, realtime};
use nix::poll::PollFlags;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};

const COUNTER: &str = "memory.usage_in_bytes";

pub(super) fn start(ears: Ears, group: CgroupDir, fifo: bool) -> Result<(), BenchError> {
    let prepare = move || {
        if fifo {
            realtime::schedule_first()?;
        }
        Ok("cgroup.event_control")
    };
    ears.listen_on_thread(prepare, move |line, armed| {
        let event = register(&group, line)?;
        armed();
        let heard = wait_for(event.as_fd(), PollFlags::POLLIN)?;
        let at = clock::now();
        Ok(heard.then_some(at).into_iter().collect())
    })
}

/// Until the descriptor is closed the kernel writes to it when the usage crosses `line` bytes, in either direction.
fn register(group: &CgroupDir, line: u64) -> Result<EventFd, BenchError> {
    let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC)
        .map_err(|e| BenchError::system("make an eventfd")(e.into()))?;
    let path = group.path().join(COUNTER);
    let counter = File::open(&path).map_err(|source| BenchError::File {
        what: "open",
        path,
        source,
    })?;
    let request = format!("{} {} {line}", event.as_raw_fd(), counter.as_raw_fd());
    group.write("cgroup.event_control", &request)?;
    Ok(event)
}
