//! The product's own path, with the agent's thread and its order of things: mark, look, arm, wait.

use super::LISTENING;
use super::listener::Ears;
use crate::agent::{self, Privileges};
use crate::bench::BenchError;
use crate::bpf::{Attached, Family, KernelEvents, Wanted};
use crate::model::{Signal, Timestamp};
use crate::ports::{Distance, PressureSource};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Version};
use crate::sys::clock;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// As in the agent: after so many turns without a pause this thread, which runs before all others, lets them run.
const TURNS_WITHOUT_PAUSE: u32 = 4;
const PAUSE: Duration = Duration::from_millis(1);

/// What is armed: a cgroup's own memory.
const SIGNAL: Signal = Signal::AllocatableMemoryAvailable;

/// Starts the thread. `attach` is called on it.
pub(super) fn start(
    ears: Ears,
    group: CgroupDir,
    version: Version,
    attach: impl FnOnce() -> Attached + Send + 'static,
) -> Result<(), BenchError> {
    let body = async move || match Kernel::open(&group, version, attach()) {
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
}

impl Kernel {
    fn open(
        group: &CgroupDir,
        version: Version,
        attached: Attached,
    ) -> Result<(Self, &'static str), BenchError> {
        let report = &attached.report().of(Family::Memory);
        if !report.is_attached() {
            return Err(BenchError::NoHook);
        }
        let rung = report.source();
        let wanted = Wanted {
            group_memory: Some(group.id()),
            ..Wanted::default()
        };
        let memory = GroupMemoryReader::open(group, version)?;
        let arming = GroupMemoryReader::open(group, version).ok();
        let events = KernelEvents::open(attached, &wanted, arming)?;
        Privileges::take().realtime?;
        Ok((Self { events, memory }, rung))
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
                armed();
            }
            self.events.next().await;
            times.push(clock::now());
        }
    }
}
