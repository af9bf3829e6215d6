//! Soundness: memory is used up in random ways until a line is crossed, again and again, and each time a look has to begin
//! before 4 MiB more are used. The evictor is the real one; an oracle reads the kernel's files meanwhile.
//!
//! After every step the driver waits until the evictor sleeps. So what is judged is how much was used past the line when the
//! look began, and not how fast an emulated guest happens to be.

mod looks;
mod oracle;
mod runs;
mod stage;
mod steps;
mod verdict;
mod worker;

use super::{Programs, TestTree};
use crate::load::now_ns;
use crate::load::worker::Command;
use anyhow::{Context, Result, bail};
use fastrand::Rng;
use looks::Looks;
use oracle::{Figure, Oracle, Sample};
use serde::Serialize;
use stage::Stage;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use steps::Step;
use verdict::{Seen, Verdict, judge};

pub use runs::{ChargeRuns, charge_runs};

const MIB: u64 = 1 << 20;
/// What may be used past the line before the look begins.
pub const ALLOWED: u64 = 4 * MIB;
/// How far below the line an approach begins.
const APPROACH_KIB: std::ops::Range<u64> = 1024..6 * 1024;
/// Steps of an approach; each adds a quarter of a MiB on average.
const MOST_STEPS: usize = 2_000;
/// How long looks may find the line crossed although everything was given back, and how often that may be so in a row.
const PATIENCE_NS: u64 = 5_000_000_000;
const TRIES: u64 = 12;
const RECORDS_COME: Duration = Duration::from_millis(300);
/// What must be left of the watched cgroup's limit.
const THRESHOLD: u64 = 64 * MIB;
/// Until the line is known.
const NO_LIMIT: u64 = 1 << 40;

/// Whose line is crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// `memory.available`
    Node,
    /// `allocatableMemory.available`
    Group,
}

impl Line {
    /// How much more is used at the line than at the start. The evictor, which is not there yet, counts on the node.
    fn above_the_start(self) -> u64 {
        match self {
            Self::Node => 96 * MIB,
            Self::Group => 12 * MIB,
        }
    }

    fn signal(self) -> &'static str {
        match self {
            Self::Node => "memory.available",
            Self::Group => "allocatableMemory.available",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub line: Line,
    pub crossings: u64,
    pub seed: u64,
    pub limit: u64,
    /// A device with an ext4, for file pages.
    pub disk: Option<PathBuf>,
    /// A device that was made swap.
    pub swap: Option<PathBuf>,
    /// More arguments for `eviction run`.
    pub extra_args: Vec<String>,
}

impl Settings {
    pub fn new(line: Line, crossings: u64, seed: u64) -> Self {
        Self {
            line,
            crossings,
            seed,
            limit: NO_LIMIT,
            disk: None,
            swap: None,
            extra_args: Vec::new(),
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub line: Line,
    pub seed: u64,
    /// Where events came from.
    pub source: String,
    /// Crossings by charged memory that an event told of.
    pub crossings: u64,
    /// Crossings by charged memory that the heartbeat happened to find before the event.
    pub heartbeat_first: u64,
    /// Crossings by what is not charged, which only the heartbeat sees.
    pub uncharged: u64,
    /// Crossings by charged memory without a look before 4 MiB more were used.
    pub missed: u64,
    /// The most that was used past the line when the look of a charged crossing began.
    pub worst_excess_kib: u64,
    pub steps: u64,
    pub looks: u64,
    /// Each missed crossing, in words.
    pub faults: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} by {}: {} crossings, {} missed, worst {} KiB past the line; heartbeat first {}, not charged {}; \
             {} steps, seed {}",
            self.line,
            self.source,
            self.crossings,
            self.missed,
            self.worst_excess_kib,
            self.heartbeat_first,
            self.uncharged,
            self.steps,
            self.seed
        )
    }
}

/// Drives the line `settings.crossings` times.
pub fn run(programs: &Programs, settings: &Settings) -> Result<Report> {
    let stage = Stage::set(programs, settings)?;
    let figure = Figure::of(settings.line, &stage.tree)?;
    let line = figure.read()? + settings.line.above_the_start();
    let hard = hard(settings.line, line, &stage)?;
    let args = arguments(settings, &stage.tree, &hard);
    let looks = Looks::start(programs, &args, settings.line.signal())?;
    let report = Report {
        line: settings.line,
        seed: settings.seed,
        source: looks.source(),
        crossings: 0,
        heartbeat_first: 0,
        uncharged: 0,
        missed: 0,
        worst_excess_kib: 0,
        steps: 0,
        looks: 0,
        faults: Vec::new(),
    };
    let mut driver = Driver {
        oracle: Oracle::start(Figure::of(settings.line, &stage.tree)?),
        figure,
        line,
        random: Rng::with_seed(settings.seed),
        looks,
        stage,
        report,
    };
    while driver.report.crossings + driver.report.missed < settings.crossings {
        driver.approach()?;
        let report = &driver.report;
        let others = report.heartbeat_first + report.uncharged;
        if others > 20 + 2 * settings.crossings {
            bail!("events tell of next to nothing: {report:?}");
        }
    }
    Ok(driver.report)
}

/// The threshold that is met when more than `line` bytes are used.
fn hard(which: Line, line: u64, stage: &Stage) -> Result<String> {
    let left = match which {
        Line::Group => {
            stage.limit(line + THRESHOLD)?;
            THRESHOLD
        }
        Line::Node => mem_total()?
            .checked_sub(line)
            .context("this machine has too little memory")?,
    };
    Ok(format!("{}<{left}", which.signal()))
}

fn mem_total() -> Result<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo")?;
    let kib = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    Ok(kib.context("no MemTotal")?.parse::<u64>()? * 1024)
}

fn arguments(settings: &Settings, tree: &TestTree, hard: &str) -> Vec<String> {
    let mut args = vec![
        "--platform=host".to_owned(),
        format!("--root={}", tree.root().display()),
        format!("--eviction-hard={hard}"),
    ];
    args.extend(settings.extra_args.iter().cloned());
    args
}

/// The last looks before a missed crossing: when they began, from the first reading beyond the line on, and what they found.
fn around(line: u64, samples: &[Sample], seen: &[Seen]) -> String {
    let over = samples.iter().find(|sample| sample.used >= line);
    let over = over.map_or(0, |sample| sample.began_ns);
    let end = samples.last().map_or(0, |sample| sample.began_ns);
    let ms = |at: u64| (i128::from(at) - i128::from(over)) / 1_000_000;
    let looks = &seen[seen.len().saturating_sub(4)..];
    let looks: Vec<_> = looks
        .iter()
        .map(|look| {
            let (at, left) = (ms(look.began_ns), look.left / 1024);
            format!("{} at {at} ms found {left} KiB left", look.source)
        })
        .collect();
    format!("the driver ended at {} ms; {}", ms(end), looks.join(", "))
}

struct Driver {
    line: u64,
    figure: Figure,
    oracle: Oracle,
    random: Rng,
    looks: Looks,
    stage: Stage,
    report: Report,
}

impl Driver {
    /// From somewhere below the line to its crossing.
    fn approach(&mut self) -> Result<()> {
        self.begin()?;
        let (mut samples, mut seen) = (Vec::new(), Vec::<Seen>::new());
        let mut taken = Vec::new();
        for _ in 0..MOST_STEPS {
            // Once the line has been crossed only charges go on, and tell how late the look is.
            let only_charges = samples
                .iter()
                .any(|sample: &Sample| sample.used + MIB >= self.line);
            let step = Step::choose(&mut self.random, &mut self.stage, only_charges);
            let stage = &mut self.stage;
            self.oracle
                .watch(|| step.take(stage))
                .with_context(|| format!("{step:?} (seed {})", self.report.seed))?;
            self.report.steps += 1;
            if !step.is_charged() {
                // What it did to the figure is the heartbeat's.
                seen.push(self.looks.after(now_ns())?);
            }
            seen.extend(self.looks.settle()?);
            samples.extend(self.oracle.take());
            samples.push(Sample::take(&self.figure)?);
            taken.push(step);
            let mut verdict = judge(self.line, ALLOWED, &samples, &seen);
            if matches!(verdict, Verdict::Late { .. }) {
                // Its record may still be on its way to us. Records carry their times: one that began too late stays so.
                std::thread::sleep(RECORDS_COME);
                seen.extend(self.looks.settle()?);
                verdict = judge(self.line, ALLOWED, &samples, &seen);
            }
            if matches!(verdict, Verdict::Late { .. }) {
                self.report.faults.push(around(self.line, &samples, &seen));
            }
            match verdict {
                Verdict::Open => {}
                verdict => {
                    self.report.looks += seen.len() as u64;
                    self.book(verdict, &taken);
                    return Ok(());
                }
            }
        }
        bail!(
            "{MOST_STEPS} steps did not come to the line (seed {})",
            self.report.seed
        )
    }

    /// Gives back what the last approach took, goes near the line at once, and waits until that has been seen. The evictor's
    /// figure and the oracle's may be some MiB apart (the node's counters, and cgroups that are summed up lazily), so whoever
    /// lands beyond the line tries again from further away.
    fn begin(&mut self) -> Result<()> {
        for try_number in 0..TRIES {
            let gap = (self.random.u64(APPROACH_KIB) + 1024 * try_number) * 1024;
            self.go_to(self.line.saturating_sub(gap))?;
            let deadline = now_ns() + PATIENCE_NS;
            while now_ns() < deadline {
                if self.looks.after(now_ns())?.left > 0 {
                    self.looks.settle()?;
                    self.oracle.take();
                    return Ok(());
                }
            }
        }
        bail!(
            "the figure does not come below the line again: {:?}",
            self.report
        )
    }

    fn go_to(&mut self, wanted: u64) -> Result<()> {
        self.stage
            .clear(self.figure.read()?.saturating_sub(wanted))?;
        let mut used = self.figure.read()?;
        if used > wanted {
            self.stage.clear(NO_LIMIT)?;
            used = self.figure.read()?;
        }
        if let Some(rest) = wanted.checked_sub(used) {
            let worker = self.random.usize(..self.stage.workers.len());
            let kib = (rest / 1024) as usize;
            if kib > 0 {
                self.stage.workers[worker].tell(&Command::Touch { kib })?;
            }
        }
        Ok(())
    }

    fn book(&mut self, verdict: Verdict, taken: &[Step]) {
        let charged = taken.last().is_some_and(Step::is_charged);
        let report = &mut self.report;
        match verdict {
            _ if !charged => report.uncharged += 1,
            Verdict::Noticed { excess, timed, .. } => {
                report.worst_excess_kib = report.worst_excess_kib.max(excess / 1024);
                if timed {
                    report.heartbeat_first += 1;
                } else {
                    report.crossings += 1;
                }
            }
            Verdict::Late { excess } => {
                report.missed += 1;
                let last = &taken[taken.len().saturating_sub(4)..];
                report.faults.push(format!(
                    "{} KiB past the line without a look after {last:?}",
                    excess / 1024
                ));
            }
            Verdict::Open => {}
        }
    }
}
