//! What do the hooks cost those who run into them? Loops of a node's daily work, each timed with the hooks of `eviction run`
//! attached and armed and without them, in turns; and what the kernel counts of each program's runs.

mod pairs;
mod programs;
mod switch;

pub use pairs::Pairs;
pub use programs::{Computed, Runs, computed_fentry_share};

use super::folder::Folder;
use super::helper::{Answer, Helper, Loop, Task};
use super::product::Product;
use super::scratch::Scratch;
use super::{BenchError, Stop};
use crate::bpf::{AttachOptions, RunStats};
use crate::sys::cgroup::Hierarchy;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What attaching or detaching leaves to the kernel to be done is done by then.
const REST: Duration = Duration::from_millis(20);

#[derive(Debug, Clone)]
pub struct Settings {
    pub pairs: u64,
    /// How long one loop is to take.
    pub loop_time: Duration,
    /// A directory on the file system whose inodes are watched, for the files that the loops make.
    pub directory: PathBuf,
    pub works: Vec<Work>,
    /// What may be attached.
    pub attach: AttachOptions,
    /// More arguments for `eviction run`.
    pub run_args: Vec<String>,
}

/// What is done in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    PageFaults,
    CreateFiles,
    Writes,
    Forks,
}

impl Work {
    pub const ALL: [Self; 4] = [
        Self::PageFaults,
        Self::CreateFiles,
        Self::Writes,
        Self::Forks,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::PageFaults => "page-faults",
            Self::CreateFiles => "file-creation",
            Self::Writes => "4k-writes",
            Self::Forks => "forks",
        }
    }

    /// So many at first, to find out how long one takes, and at most so many: what the loops leave behind has to stay
    /// small beside the node.
    fn bounds(self) -> (u64, u64) {
        match self {
            Self::PageFaults => (4096, 131_072),
            Self::CreateFiles => (200, 20_000),
            Self::Writes => (1024, 32_768),
            Self::Forks => (50, 5_000),
        }
    }

    fn times(self, count: u64, directory: &Path) -> Loop {
        let directory = directory.to_owned();
        match self {
            Self::PageFaults => Loop::PageFaults { count },
            Self::CreateFiles => Loop::CreateFiles { directory, count },
            Self::Writes => Loop::Writes { directory, count },
            Self::Forks => Loop::Forks { count },
        }
    }
}

/// The whole measurement.
#[derive(Debug)]
pub struct Cost {
    /// The hooks in use while the pairs were taken, by family.
    pub sources: BTreeMap<String, String>,
    pub pairs: Vec<Pairs>,
    pub programs: Vec<Runs>,
}

pub fn run(settings: &Settings, hierarchy: &Hierarchy, stop: &Stop) -> Result<Cost, BenchError> {
    if RunStats::are_on_for_all() {
        return Err(BenchError::StatsOn);
    }
    let mut bench = Bench::open(settings, hierarchy)?;
    let sources = bench.armed(&settings.run_args)?.sources();
    Ok(Cost {
        sources,
        pairs: pairs::measure(&mut bench, hierarchy, stop)?,
        programs: programs::measure(&mut bench, stop)?,
    })
}

/// Who does the loops, and what watches it.
struct Bench<'a> {
    settings: &'a Settings,
    worker: Helper,
    /// Of the worker.
    cgroups: Vec<PathBuf>,
    scratch: Scratch,
    folder: Folder,
}

impl<'a> Bench<'a> {
    fn open(settings: &'a Settings, hierarchy: &Hierarchy) -> Result<Self, BenchError> {
        let mut scratch = Scratch::create(hierarchy, None)?;
        let cgroups = scratch.add("worker")?;
        Ok(Self {
            settings,
            worker: Helper::start(&cgroups)?,
            cgroups,
            folder: Folder::make(&settings.directory)?,
            scratch,
        })
    }

    /// Another process in its place.
    fn start_worker(&mut self) -> Result<(), BenchError> {
        self.worker = Helper::start(&self.cgroups)?;
        Ok(())
    }

    /// An `eviction run` with its lines armed, far from each of them.
    fn armed(&self, more: &[String]) -> Result<Product, BenchError> {
        Product::watching(self.scratch.root().path(), self.folder.path(), more)
    }

    /// What the last loop left to the kernel to write is written: or the next one would pay for it.
    fn write_back(&self) -> Result<(), BenchError> {
        let folder = self.folder.path();
        let failed = |source| BenchError::File {
            what: "write back what is in",
            path: folder.to_owned(),
            source,
        };
        let opened = std::fs::File::open(folder).map_err(failed)?;
        nix::unistd::syncfs(&opened).map_err(|e| failed(e.into()))
    }

    /// One half of a pair.
    fn half(&mut self, work: Work, count: u64) -> Result<f64, BenchError> {
        self.write_back()?;
        std::thread::sleep(REST);
        self.time(work, count)
    }

    /// Nanoseconds for `count` times.
    fn time(&mut self, work: Work, count: u64) -> Result<f64, BenchError> {
        match self
            .worker
            .ask(&Task::Loop(work.times(count, self.folder.path())))?
        {
            Answer::Took(nanos) => Ok(nanos as f64),
            other => Err(BenchError::Helper(format!("{other:?}"))),
        }
    }

    /// How many times take as long as one loop is to take.
    fn calibrate(&mut self, work: Work) -> Result<u64, BenchError> {
        let (first, most) = work.bounds();
        let each = self.time(work, first)? / first as f64;
        let wanted = self.settings.loop_time.as_nanos() as f64 / each;
        Ok((wanted as u64).clamp(first, most))
    }
}
