//! Round by round: the sources take turns, each with a crossing of its own.

use super::listener::Listener;
use super::{Row, Source, kernel, memcg, memory_events, poll, wakeup};
use crate::bench::busy::Busy;
use crate::bench::helper::{Answer, Crossing, Helper, Task};
use crate::bench::scratch::Scratch;
use crate::bench::stats::Sorted;
use crate::bench::{BenchError, Stop, cpus};
use crate::bpf::Attached;
use crate::model::Timestamp;
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy, PAGE_SIZE, Version, usage_file};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// How far away the line is when it is armed, in pages: from 8 MiB on, so that a hook that reports ahead of a line, while it
/// is further away than a batch of huge pages, has to do so and to be armed again.
const LEAST_DISTANCE: u64 = 2048;
/// A power of two of pages is added, spread evenly: the line must not keep step with the batches of charging.
const SPREAD_BITS: u32 = 11;

/// The taker goes on like any other: cgroup v1 looks for crossed lines at each 128th page of a CPU only
/// (`memcg1_check_events()`, 6.18; the same since 4.x).
const PAST_PAGES: u64 = 1024;

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Crossings for each source.
    pub rounds: u64,
    /// Keep every CPU busy meanwhile.
    pub busy: bool,
}

/// Measures. `attach` is called once, on the thread that listens to the hooks.
pub fn run(
    settings: Settings,
    hierarchy: &Hierarchy,
    attach: impl FnOnce() -> Attached + Send + 'static,
    stop: &Stop,
) -> Result<Vec<Row>, BenchError> {
    let mut scratch = Scratch::create(hierarchy, None)?;
    let cgroups = scratch.add("taker")?;
    let cpus = cpus::allowed().map_err(BenchError::system("list the CPUs"))?;
    let (Some(&first), Some(&last)) = (cpus.first(), cpus.last()) else {
        return Err(BenchError::HelperEnded);
    };
    // Not closed on exec: the taker inherits it.
    let event = EventFd::from_flags(EfdFlags::empty())
        .map_err(|e| BenchError::system("make an eventfd")(e.into()))?;
    let event = Arc::new(event);
    let mut taker = Taker {
        helper: Helper::start(&cgroups)?,
        group: scratch.root().clone(),
        memory: GroupMemoryReader::open(scratch.root(), hierarchy.version)?,
        version: hierarchy.version,
        eventfd: event.as_fd().as_raw_fd(),
    };
    taker.helper.ask(&Task::Pin { cpu: last })?;

    let mut attach = Some(attach);
    let mut turns = Vec::new();
    for source in Source::of(hierarchy.version) {
        let (listener, ears) = Listener::new(source);
        let (group, version) = (scratch.root().clone(), hierarchy.version);
        match source {
            Source::Bpf => {
                if let Some(attach) = attach.take() {
                    kernel::start(ears, group, version, attach)?;
                }
            }
            Source::MemcgEventfd => memcg::start(ears, group, false)?,
            Source::MemcgEventfdFifo => memcg::start(ears, group, true)?,
            Source::MemoryEvents => memory_events::start(ears, group, false)?,
            Source::MemoryEventsFifo => memory_events::start(ears, group, true)?,
            Source::Poll => poll::start(ears, &group, version)?,
            Source::Wakeup => wakeup::start(ears, Arc::clone(&event), first)?,
        }
        turns.push(Turn {
            rung: listener.ready()?,
            listener,
            missed: 0,
            latencies: Vec::new(),
        });
    }

    let _busy = settings.busy.then(Busy::start).transpose()?;
    for round in 0..settings.rounds {
        for turn in &mut turns {
            stop.check()?;
            turn.take(&mut taker, round)?;
        }
    }
    Ok(turns
        .into_iter()
        .map(|turn| turn.row(settings.rounds))
        .collect())
}

/// One source, and what it has to show so far.
struct Turn {
    listener: Listener,
    rung: &'static str,
    missed: u64,
    latencies: Vec<f64>,
}

impl Turn {
    fn take(&mut self, taker: &mut Taker, round: u64) -> Result<(), BenchError> {
        taker.rest()?;
        let line = taker.line(round)?;
        self.listener.arm(line)?;
        let crossed = match self.listener.source {
            Source::Wakeup => taker.wake()?,
            _ => taker.cross(line)?,
        };
        let heard = self.listener.heard()?;
        match latency(crossed, &heard) {
            Some(micros) => self.latencies.push(micros),
            None => self.missed += 1,
        }
        Ok(())
    }

    fn row(self, rounds: u64) -> Row {
        Row {
            source: self.listener.source,
            rung: self.rung,
            rounds,
            missed: self.missed,
            latencies: Sorted::new(self.latencies),
        }
    }
}

/// Microseconds to the first wake-up after the crossing. A listener that was up already, and whose last look found it, was
/// not late at all.
fn latency(crossed: Timestamp, heard: &[Timestamp]) -> Option<f64> {
    let last = heard.last()?;
    let first = heard.iter().find(|at| **at >= crossed).unwrap_or(last);
    Some((first.since(crossed).as_nanos().max(0)) as f64 / 1000.0)
}

/// The process that crosses the line.
struct Taker {
    helper: Helper,
    group: CgroupDir,
    memory: GroupMemoryReader,
    version: Version,
    eventfd: i32,
}

impl Taker {
    fn rest(&mut self) -> Result<(), BenchError> {
        self.helper.ask(&Task::Rest).map(drop)
    }

    fn line(&self, round: u64) -> Result<u64, BenchError> {
        // Multiples of the golden ratio are spread evenly, however many are taken.
        let spread = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SPREAD_BITS);
        Ok(self.memory.usage()? + (LEAST_DISTANCE + spread) * PAGE_SIZE)
    }

    fn cross(&mut self, line: u64) -> Result<Timestamp, BenchError> {
        let counter = usage_file(self.version);
        self.at(&Task::Cross(Crossing {
            counter: self.group.path().join(counter),
            line,
            past_pages: PAST_PAGES,
            rate: 0,
            run_up: 0,
            progress: None,
        }))
    }

    fn wake(&mut self) -> Result<Timestamp, BenchError> {
        self.at(&Task::Wake {
            eventfd: self.eventfd,
        })
    }

    fn at(&mut self, task: &Task) -> Result<Timestamp, BenchError> {
        match self.helper.ask(task)? {
            Answer::At(nanos) => Ok(Timestamp::from_nanos(nanos)),
            other => Err(BenchError::Helper(format!("{other:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wake_up_after_the_crossing_counts() {
        let at = |micros: i64| Timestamp::from_nanos(micros * 1000);
        for (heard, expected) in [
            (vec![], None),
            (vec![at(130)], Some(30.0)),
            (vec![at(40), at(125), at(126)], Some(25.0)),
            (vec![at(40), at(99)], Some(0.0)),
        ] {
            assert_eq!(latency(at(100), &heard), expected, "{heard:?}");
        }
    }
}
