//! What does a node pay on which nothing happens? A whole `eviction run` with its lines armed, a hundred cgroups, and one
//! workload that takes memory and gives it back.

use super::helper::{Helper, Task};
use super::product::Product;
use super::scratch::Scratch;
use super::{BenchError, Stop};
use crate::sys::cgroup::Hierarchy;
use crate::sys::clock;
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

#[derive(Debug, Clone)]
pub struct Settings {
    pub seconds: u64,
    pub cgroups: u64,
    /// What the workload takes, in MiB a second.
    pub charging: u64,
    /// A path on the file system whose inodes are watched.
    pub directory: PathBuf,
    /// More arguments for `eviction run`.
    pub run_args: Vec<String>,
}

#[derive(Debug)]
pub struct Row {
    pub rung: String,
    pub seconds: f64,
    pub cgroups: u64,
    /// MiB a second.
    pub charging: u64,
    /// CPU time of all its threads, in percent of one CPU.
    pub cpu_percent: f64,
    /// The most that was resident at any time, in MiB.
    pub rss_mib: f64,
}

pub fn run(settings: &Settings, hierarchy: &Hierarchy, stop: &Stop) -> Result<Row, BenchError> {
    let mut scratch = Scratch::create(hierarchy, None)?;
    for number in 1..settings.cgroups {
        scratch.add(&format!("idle-{number}"))?;
    }
    let mut workload = Helper::start(&scratch.add("breathing")?)?;
    let product = Product::watching(
        scratch.root().path(),
        &settings.directory,
        &settings.run_args,
    )?;
    workload.tell(&Task::Breathe {
        bytes_a_second: settings.charging * MIB,
    })?;
    let process = Observed::open(product.id())?;
    let (began, used_before) = (clock::now(), process.cpu_time()?);
    let limit = Duration::from_secs(settings.seconds);
    let mut most_resident = 0;
    while clock::elapsed_since(began) < limit {
        stop.check()?;
        std::thread::sleep(BETWEEN_LOOKS.min(limit));
        most_resident = most_resident.max(process.resident()?);
    }
    let lasted = clock::elapsed_since(began).as_secs_f64();
    let used = process
        .cpu_time()?
        .saturating_sub(used_before)
        .as_secs_f64();
    Ok(Row {
        rung: product.rung("memory"),
        seconds: lasted,
        cgroups: settings.cgroups,
        charging: settings.charging,
        cpu_percent: used / lasted * 100.0,
        rss_mib: most_resident as f64 / MIB as f64,
    })
}

/// Another process, looked at from outside.
struct Observed {
    pid: Pid,
    clock: ClockId,
}

impl Observed {
    fn open(pid: u32) -> Result<Self, BenchError> {
        let pid = Pid::from_raw(pid.cast_signed());
        let clock = clock_getcpuclockid(pid)
            .map_err(|e| BenchError::system("find a process's clock")(e.into()))?;
        Ok(Self { pid, clock })
    }

    /// Of all threads, those that have ended included: the scheduler's own figure, not the ticks of /proc.
    fn cpu_time(&self) -> Result<Duration, BenchError> {
        let time = clock_gettime(self.clock)
            .map_err(|e| BenchError::system("read a process's clock")(e.into()))?;
        Ok(Duration::from_nanos(time.num_nanoseconds().unsigned_abs()))
    }

    /// Resident bytes.
    fn resident(&self) -> Result<u64, BenchError> {
        let status =
            procfs::process::Process::new(self.pid.as_raw()).and_then(|process| process.status());
        let kib = status
            .map_err(|e| BenchError::system("read a process's size")(std::io::Error::other(e)))?
            .vmrss;
        Ok(kib.unwrap_or(0) * 1024)
    }
}
