//! On which CPUs things run.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io;

/// The calling thread.
const SELF: Pid = Pid::from_raw(0);

/// The CPUs that the calling thread may run on.
pub(super) fn allowed() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(SELF)?;
    Ok((0..CpuSet::count())
        .filter(|&cpu| set.is_set(cpu).unwrap_or(false))
        .collect())
}

/// From now on the calling thread, and what it starts, runs on this CPU alone.
pub(super) fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu)?;
    Ok(sched_setaffinity(SELF, &set)?)
}
