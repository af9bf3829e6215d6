//! Makes the calling thread the one that runs first: real-time scheduling, memory that stays.

use nix::errno::Errno;
use nix::libc::RLIM_INFINITY;
use nix::sys::resource::{Resource, getrlimit};
use std::io;
use std::path::Path;

/// Above ordinary tasks and below the kernel's own threads (migration, watchdog run at 99).
const PRIORITY: i32 = 50;

/// What was asked for and refused; the loop runs all the same, later than it could.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RealtimeError {
    #[error("SCHED_FIFO refused ({0}): give the process CAP_SYS_NICE")]
    Privilege(Errno),
    #[error(
        "SCHED_FIFO refused ({errno}): the cpu cgroup {group} has no real-time budget; \
         write microseconds to cpu.rt_runtime_us there and in each parent, or start in the root cpu cgroup"
    )]
    NoBudget { errno: Errno, group: String },
}

/// Where the thread is that runs first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scheduled {
    WithItsProcess,
    /// Alone in the root of the cpu hierarchy: its process's cgroup has no real-time budget.
    InTheRoot {
        left: String,
    },
}

impl std::fmt::Display for Scheduled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::WithItsProcess => f.write_str("SCHED_FIFO"),
            Self::InTheRoot { left } => write!(
                f,
                "SCHED_FIFO; the fast thread alone is in the root cpu cgroup: {left} has no real-time budget"
            ),
        }
    }
}

/// Puts the calling thread under SCHED_FIFO. Where its cpu cgroup has no real-time budget (a pod's, on cgroup v1 with
/// CONFIG_RT_GROUP_SCHED), it leaves that for the root one: as an ordinary thread it would wait there for its CPU quota, up to
/// a tenth of a second.
pub fn schedule_first() -> Result<Scheduled, RealtimeError> {
    let errno = match fifo() {
        Ok(()) => return Ok(Scheduled::WithItsProcess),
        Err(errno) => errno,
    };
    let Some(place) = group_without_budget() else {
        return Err(RealtimeError::Privilege(errno));
    };
    let left = place.group.clone();
    let moved = place.leave().map_err(|_| errno).and_then(|()| fifo());
    moved.map_err(|errno| RealtimeError::NoBudget {
        errno,
        group: left.clone(),
    })?;
    Ok(Scheduled::InTheRoot { left })
}

fn fifo() -> Result<(), Errno> {
    let param = nix::libc::sched_param {
        sched_priority: PRIORITY,
    };
    // SAFETY: pid 0 is the calling thread, and `param` lives through the call.
    let done = unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_FIFO, &raw const param) };
    Errno::result(done).map(drop)
}

/// Puts the calling thread where ordinary ones are: a new thread inherits what its maker has.
pub fn schedule_ordinarily() -> Result<(), Errno> {
    let param = nix::libc::sched_param { sched_priority: 0 };
    // SAFETY: pid 0 is the calling thread, and `param` lives through the call.
    let done =
        unsafe { nix::libc::sched_setscheduler(0, nix::libc::SCHED_OTHER, &raw const param) };
    Errno::result(done).map(drop)
}

/// Locks what the process has and will have in memory, as it is touched, so that no look waits for a
/// page to come back from disk just when memory is short.
pub fn lock_memory() -> Result<(), Errno> {
    // With MCL_FUTURE and without CAP_IPC_LOCK a later mmap beyond RLIMIT_MEMLOCK fails
    // (mlock_future_ok()): rather not locked than short of memory at the wrong moment.
    if getrlimit(Resource::RLIMIT_MEMLOCK)?.0 != RLIM_INFINITY && !has_ipc_lock() {
        return Err(Errno::EPERM);
    }
    let flags = nix::libc::MCL_CURRENT | nix::libc::MCL_FUTURE | nix::libc::MCL_ONFAULT;
    // SAFETY: takes flags only. (nix's wrapper does not know MCL_ONFAULT.)
    Errno::result(unsafe { nix::libc::mlockall(flags) }).map(drop)
}

/// CAP_IPC_LOCK in the effective set.
fn has_ipc_lock() -> bool {
    const CAP_IPC_LOCK: u64 = 14;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1)
}

/// A cgroup of the cpu hierarchy.
struct CpuGroup {
    mount: &'static str,
    group: String,
}

impl CpuGroup {
    /// Takes the calling thread to the root.
    fn leave(&self) -> io::Result<()> {
        let thread = nix::unistd::gettid().to_string();
        std::fs::write(Path::new(self.mount).join("tasks"), thread)
    }
}

/// The thread's v1 cpu cgroup, if the kernel schedules real-time groups (CONFIG_RT_GROUP_SCHED) and this one
/// has no budget: then EPERM has nothing to do with capabilities.
fn group_without_budget() -> Option<CpuGroup> {
    let own = std::fs::read_to_string("/proc/thread-self/cgroup").ok()?;
    let group = v1_cpu_group(&own)?;
    let mount = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
        .into_iter()
        .find(|m| Path::new(m).exists())?;
    let budget = std::fs::read_to_string(format!("{mount}{group}/cpu.rt_runtime_us")).ok()?;
    (budget.trim() == "0").then(|| CpuGroup {
        mount,
        group: group.to_owned(),
    })
}

/// The path on the line of the v1 cpu controller in /proc/PID/cgroup.
fn v1_cpu_group(proc_cgroup: &str) -> Option<&str> {
    proc_cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers.split(',').any(|c| c == "cpu").then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_cpu_line_of_proc_cgroup() {
        let v1 = "9:name=systemd:/\n4:memory:/a\n3:cpuset:/b\n2:cpu,cpuacct:/kubepods/pod1\n0::/\n";
        assert_eq!(v1_cpu_group(v1), Some("/kubepods/pod1"));
        assert_eq!(v1_cpu_group("3:cpuset:/b\n0::/x\n"), None);
    }
}
