//! Round by round: the sources take turns, each with a crossing of its own.

use super::kernel::Watched;
use super::listener::Listener;
use super::{Row, Source, StormRow, kernel, memcg, memory_events, poll, wakeup};
use crate::bench::busy::Busy;
use crate::bench::folder::Folder;
use crate::bench::helper::{Answer, Crossing, Helper, Task};
use crate::bench::scratch::Scratch;
use crate::bench::stats::Sorted;
use crate::bench::storm::Raging;
use crate::bench::{BenchError, Stop, Storm, cpus};
use crate::bpf::Attached;
use crate::model::Timestamp;
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy, PAGE_SIZE, Version, usage_file};
use crate::sys::filesystem::FileSystem;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How far away the line is when it is armed, in pages: from 8 MiB on, so that a hook that reports ahead of a line, while it
/// is further away than a batch of huge pages, has to do so and to be armed again.
const LEAST_DISTANCE: u64 = 2048;
/// A power of two of pages is added, spread evenly: the line must not keep step with the batches of charging.
const SPREAD_BITS: u32 = 11;

/// The taker goes on like any other: cgroup v1 looks for crossed lines at each 128th page of a CPU only
/// (`memcg1_check_events()`, 6.18; the same since 4.x).
const PAST_PAGES: u64 = 1024;

#[derive(Debug, Clone)]
pub struct Settings {
    /// Crossings for each source.
    pub rounds: u64,
    /// Keep every CPU busy meanwhile.
    pub busy: bool,
    /// Each crossing once without and once during this storm, whose files are made below this directory.
    pub storm: Option<(Storm, PathBuf)>,
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

    let storm = match &settings.storm {
        Some((storm, parent)) => Some(Storming::prepare(*storm, parent, &mut scratch)?),
        None => None,
    };
    let mut attach = Some(attach);
    let mut turns = Vec::new();
    let sources = Source::of(hierarchy.version).into_iter();
    for source in sources.filter(|source| storm.is_none() || source.bears_storms()) {
        let (listener, ears) = Listener::new(source);
        let (group, version) = (scratch.root().clone(), hierarchy.version);
        match source {
            Source::Bpf => {
                if let Some(attach) = attach.take() {
                    let watched = storm.as_ref().map(|storm| storm.watched.clone());
                    kernel::start(ears, group, version, watched, attach)?;
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
            quiet: Tally::default(),
            stormy: Tally::default(),
        });
    }

    let _busy = settings.busy.then(Busy::start).transpose()?;
    for round in 0..settings.rounds {
        for turn in &mut turns {
            stop.check()?;
            turn.take(&mut taker, round, false)?;
            if let Some(storm) = &storm {
                storm.raging.rage(true)?;
                let taken = turn.take(&mut taker, round, true);
                storm.raging.rage(false)?;
                taken?;
            }
        }
    }
    let rows = turns.into_iter().flat_map(|turn| {
        let stormy = storm
            .as_ref()
            .map(|storm| turn.stormy_row(&settings, storm));
        [Some(turn.quiet_row(&settings)), stormy]
            .into_iter()
            .flatten()
    });
    Ok(rows.collect())
}

/// The storm, ready to break loose.
struct Storming {
    raging: Raging,
    watched: Watched,
    /// Last: gone after those who use it.
    _folder: Folder,
}

impl Storming {
    fn prepare(storm: Storm, parent: &Path, scratch: &mut Scratch) -> Result<Self, BenchError> {
        let folder = Folder::make(parent)?;
        let files = FileSystem::at(folder.path()).map_err(|error| BenchError::File {
            what: "look at",
            path: folder.path().to_owned(),
            source: std::io::Error::other(error),
        })?;
        Ok(Self {
            raging: Raging::start(storm, &scratch.add("storm")?, folder.path())?,
            watched: Watched {
                storm,
                files,
                told: Arc::default(),
            },
            _folder: folder,
        })
    }
}

/// One source, and what it has to show so far.
struct Turn {
    listener: Listener,
    rung: &'static str,
    quiet: Tally,
    stormy: Tally,
}

#[derive(Default)]
struct Tally {
    missed: u64,
    latencies: Vec<f64>,
}

impl Turn {
    fn take(&mut self, taker: &mut Taker, round: u64, stormy: bool) -> Result<(), BenchError> {
        taker.rest()?;
        let line = taker.line(round)?;
        self.listener.arm(line)?;
        let crossed = match self.listener.source {
            Source::Wakeup => taker.wake()?,
            _ => taker.cross(line)?,
        };
        let heard = self.listener.heard()?;
        let tally = if stormy {
            &mut self.stormy
        } else {
            &mut self.quiet
        };
        match latency(crossed, &heard) {
            Some(micros) => tally.latencies.push(micros),
            None => tally.missed += 1,
        }
        Ok(())
    }

    fn quiet_row(&self, settings: &Settings) -> Row {
        self.row(settings, &self.quiet, None)
    }

    fn stormy_row(&self, settings: &Settings, storm: &Storming) -> Row {
        let Watched { storm, told, .. } = &storm.watched;
        let storm = StormRow {
            storm: *storm,
            armings: told.armings.load(Ordering::Relaxed),
            events: told.events.load(Ordering::Relaxed),
            units: told.units.load(Ordering::Relaxed),
        };
        self.row(settings, &self.stormy, Some(storm))
    }

    fn row(&self, settings: &Settings, tally: &Tally, storm: Option<StormRow>) -> Row {
        Row {
            source: self.listener.source,
            rung: self.rung,
            rounds: settings.rounds,
            missed: tally.missed,
            latencies: Sorted::new(tally.latencies.clone()),
            storm,
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
