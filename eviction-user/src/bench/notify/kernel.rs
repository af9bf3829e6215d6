//! The product's own path, with the agent's thread and its order of things: mark, look, arm, wait.

use super::LISTENING;
use super::listener::Ears;
use crate::agent::{self, Privileges};
use crate::bench::{BenchError, Storm};
use crate::bpf::{Attached, Family, KernelEvents, Wanted};
use crate::model::{Signal, Timestamp};
use crate::ports::{Distance, PressureEvent, PressureSource};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Version};
use crate::sys::clock;
use crate::sys::filesystem::FileSystem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// As in the agent: after so many turns without a pause this thread, which runs before all others, lets them run.
const TURNS_WITHOUT_PAUSE: u32 = 4;
const PAUSE: Duration = Duration::from_millis(1);

/// What is armed: a cgroup's own memory.
const SIGNAL: Signal = Signal::AllocatableMemoryAvailable;

/// What else is watched, because a storm uses it up.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) storm: Storm,
    /// The file system that the storm makes its files on.
    pub(super) files: FileSystem,
    pub(super) told: Arc<Told>,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) armings: AtomicU64,
    pub(super) events: AtomicU64,
    /// Inodes or tasks spent, by the events.
    pub(super) units: AtomicU64,
}

impl Watched {
    const fn signal(&self) -> Signal {
        match self.storm {
            Storm::Inodes => Signal::NodeFsInodesFree,
            Storm::Forks => Signal::PidAvailable,
        }
    }

    fn want(&self, wanted: &mut Wanted) {
        match self.storm {
            Storm::Inodes => wanted.add_device(self.signal(), &self.files),
            Storm::Forks => wanted.pids = true,
        }
    }

    /// As after a look that finds the line still a step away, wherever it is.
    fn arm(&self, events: &mut KernelEvents) {
        self.told.armings.fetch_add(1, Ordering::Relaxed);
        let distance = Distance {
            left: self.storm.step(),
            level: None,
        };
        // It may have been crossed already, which is the same as an event.
        if let Some(event) = events.arm(self.signal(), distance) {
            self.hear(&event);
        }
    }

    fn hear(&self, event: &PressureEvent) {
        self.told.events.fetch_add(1, Ordering::Relaxed);
        self.told.units.fetch_add(event.amount, Ordering::Relaxed);
    }
}

/// Starts the thread. `attach` is called on it.
pub(super) fn start(
    ears: Ears,
    group: CgroupDir,
    version: Version,
    watched: Option<Watched>,
    attach: impl FnOnce() -> Attached + Send + 'static,
) -> Result<(), BenchError> {
    let body = async move || match Kernel::open(&group, version, watched, attach()) {
        Ok((kernel, rung)) => {
            ears.ready(rung);
            kernel.listen(ears).await;
        }
        Err(error) => ears.failed(error),
    };
    agent::start(body)
        .map(drop)
        .map_err(BenchError::system("start a thread"))
}

struct Kernel {
    events: KernelEvents,
    memory: GroupMemoryReader,
    watched: Option<Watched>,
}

impl Kernel {
    fn open(
        group: &CgroupDir,
        version: Version,
        watched: Option<Watched>,
        attached: Attached,
    ) -> Result<(Self, &'static str), BenchError> {
        let report = &attached.report().of(Family::Memory);
        if !report.is_attached() {
            return Err(BenchError::NoHook);
        }
        let rung = report.source();
        let mut wanted = Wanted {
            group_memory: Some(group.id()),
            ..Wanted::default()
        };
        if let Some(watched) = &watched {
            watched.want(&mut wanted);
        }
        let memory = GroupMemoryReader::open(group, version)?;
        let arming = GroupMemoryReader::open(group, version).ok();
        let events = KernelEvents::open(attached, &wanted, arming)?;
        Privileges::take().realtime?;
        if let Some(watched) = &watched
            && !events.covers(watched.signal())
        {
            return Err(BenchError::NoStormHook(watched.storm.name()));
        }
        let kernel = Self {
            events,
            memory,
            watched,
        };
        Ok((kernel, rung))
    }

    async fn listen(mut self, mut ears: Ears) {
        while let Some(line) = ears.lines.recv().await {
            match timeout(LISTENING, self.crossing(line, || ears.armed())).await {
                Ok(Ok(times)) => ears.heard(times),
                Ok(Err(error)) => return ears.failed(error),
                Err(_) => ears.heard(Vec::new()),
            }
            self.events.mark();
            self.events.disarm(SIGNAL);
        }
    }

    /// Waits for one, and answers those of the storm meanwhile.
    async fn event_of_memory(&mut self) {
        loop {
            let event = self.events.next().await;
            match &self.watched {
                Some(watched) if event.signal == watched.signal() => {
                    watched.hear(&event);
                    // Of the lines only this one is armed anew; memory's stays as it is.
                    self.events.mark();
                    watched.arm(&mut self.events);
                }
                _ => return,
            }
        }
    }

    /// When it was woken, until a look found the line crossed.
    async fn crossing(
        &mut self,
        line: u64,
        armed: impl FnOnce(),
    ) -> Result<Vec<Timestamp>, BenchError> {
        let mut armed = Some(armed);
        let mut times = Vec::with_capacity(64);
        let mut turns = 0;
        loop {
            self.events.mark();
            let usage = self.memory.usage()?;
            if usage >= line {
                return Ok(times);
            }
            let distance = Distance {
                left: i64::try_from(line - usage).unwrap_or(i64::MAX),
                level: Some(line),
            };
            if self.events.arm(SIGNAL, distance).is_some() {
                times.push(clock::now());
                turns += 1;
                if turns % TURNS_WITHOUT_PAUSE == 0 {
                    sleep(PAUSE).await;
                }
                continue;
            }
            turns = 0;
            if let Some(armed) = armed.take() {
                if let Some(watched) = &self.watched {
                    watched.arm(&mut self.events);
                }
                armed();
            }
            self.event_of_memory().await;
            times.push(clock::now());
        }
    }
}
