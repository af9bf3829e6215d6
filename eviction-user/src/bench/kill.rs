//! How far past the line does a victim come? A whole `eviction run` watches a cgroup with a limit; a process in it takes
//! memory at a set rate until it is killed.

use super::helper::{Crossing, Helper, Progress, Task};
use super::product::Product;
use super::scratch::Scratch;
use super::stats::Sorted;
use super::{BenchError, Stop};
use crate::sys::cgroup::{Hierarchy, PAGE_SIZE, Version, oom_kills, usage_file};
use crate::sys::clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// What the cgroup may have, and what must stay available in it: the line lies at the difference.
const LIMIT: u64 = 1024 * MIB;
const THRESHOLD: u64 = 256 * MIB;
/// The first usage with less than the threshold available.
const LINE: u64 = LIMIT - THRESHOLD + PAGE_SIZE;
/// For so long, in milliseconds, the victim has held its rate when it comes to the line.
const RUN_UP_MS: u64 = 250;
const KILL_LIMIT: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

#[derive(Debug, Clone)]
pub struct Settings {
    pub rounds: u64,
    /// MiB a second.
    pub rates: Vec<u64>,
    /// More arguments for `eviction run`.
    pub run_args: Vec<String>,
}

/// What the rounds at one rate have to show.
#[derive(Debug)]
pub struct Row {
    pub rung: String,
    /// MiB a second that were asked for.
    pub rate: u64,
    pub rounds: u64,
    /// Rounds in which the victim ran into the limit before it was killed.
    pub too_late: u64,
    /// Rounds in which the victim was killed although the line had not been crossed.
    pub too_early: u64,
    /// Microseconds from the crossing to the victim's last page.
    pub stopped_us: Sorted,
    /// MiB past the line at the most, as the kernel counts: pages charged ahead included.
    pub overshoot_mib: Sorted,
}

pub fn run(
    settings: &Settings,
    hierarchy: &Hierarchy,
    stop: &Stop,
) -> Result<Vec<Row>, BenchError> {
    settings
        .rates
        .iter()
        .map(|&rate| at_rate(rate, settings, hierarchy, stop))
        .collect()
}

fn at_rate(
    rate: u64,
    settings: &Settings,
    hierarchy: &Hierarchy,
    stop: &Stop,
) -> Result<Row, BenchError> {
    let mut rung = String::new();
    let (mut stopped, mut overshoot) = (Vec::new(), Vec::new());
    let (mut too_late, mut too_early) = (0, 0);
    for _ in 0..settings.rounds {
        stop.check()?;
        let round = one_kill(rate, settings, hierarchy)?;
        rung = round.rung;
        stopped.push(round.stopped_us);
        overshoot.push(round.overshoot_mib);
        too_late += u64::from(round.oom_killed);
        too_early += u64::from(round.too_early);
    }
    Ok(Row {
        rung,
        rate,
        rounds: settings.rounds,
        too_late,
        too_early,
        stopped_us: Sorted::new(stopped),
        overshoot_mib: Sorted::new(overshoot),
    })
}

struct Round {
    rung: String,
    oom_killed: bool,
    too_early: bool,
    stopped_us: f64,
    overshoot_mib: f64,
}

fn one_kill(rate: u64, settings: &Settings, hierarchy: &Hierarchy) -> Result<Round, BenchError> {
    let mut scratch = Scratch::create(hierarchy, Some(LIMIT))?;
    let cgroups = scratch.add("victim")?;
    let progress = Progress::create().map_err(BenchError::system("make a shared page"))?;
    let mut args = vec![
        format!("--root={}", scratch.root().path().display()),
        format!("--eviction-hard=allocatableMemory.available<{THRESHOLD}"),
    ];
    args.extend(settings.run_args.iter().cloned());
    let product = Product::start(&args)?;
    let mut victim = Helper::start(&cgroups)?;
    victim.tell(&Task::Cross(Crossing {
        counter: scratch.root().path().join(usage_file(hierarchy.version)),
        line: LINE,
        past_pages: THRESHOLD / PAGE_SIZE,
        rate: rate * MIB,
        run_up: rate * MIB * RUN_UP_MS / 1000,
        progress: Some(progress.path()),
    }))?;
    let began = clock::now();
    while !victim.killed() {
        if clock::elapsed_since(began) > KILL_LIMIT {
            return Err(BenchError::NotKilled(KILL_LIMIT));
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    let group = scratch.root();
    let figures = progress.figures();
    let past = figures.past_pages.load(Ordering::Acquire);
    let crossed = figures.crossed_ns.load(Ordering::Acquire);
    let last = figures.last_ns.load(Ordering::Acquire);
    // Older kernels than 5.19 do not tell it on v2.
    let peak = group.number(peak_file(hierarchy.version));
    let peak = peak.unwrap_or(LINE + past * PAGE_SIZE);
    Ok(Round {
        rung: product.rung("memory"),
        oom_killed: oom_kills(group, hierarchy.version)? > 0,
        too_early: peak < LINE,
        // Most often it is killed within the page that crosses, and never comes back to tell.
        stopped_us: if past == 0 {
            0.0
        } else {
            (last - crossed).max(0) as f64 / 1000.0
        },
        overshoot_mib: peak.saturating_sub(LINE) as f64 / MIB as f64,
    })
}

fn peak_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "memory.max_usage_in_bytes",
        Version::V2 => "memory.peak",
    }
}
