//! Runs one story (or the demo) against the real `eviction` and judges it: natively and in guests.

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use eviction_tests::load::Progress;
use eviction_tests::oracle::{DiskOracle, Fs};
use eviction_tests::scenario::demo::{Demo, inode_faults, is_timer, memory_faults, right_victim};
use eviction_tests::scenario::soundness::{self, ChargeRuns, Line, Settings, charge_runs};
use eviction_tests::scenario::{
    Events, InodeStory, MemoryStory, OomStory, Programs, cache, crossing, interrupt, pids,
};
use eviction_user::bpf::{Facts, FactsOptions, Rung};
use eviction_user::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy};
use serde_json::Value;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs a story against the real `eviction` binary that lies beside this one.
#[derive(Parser)]
struct Args {
    #[arg(long, value_enum, default_value = "text", global = true)]
    output: Output,
    #[command(subcommand)]
    story: Story,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[derive(Subcommand)]
enum Story {
    /// Memory, control and inodes in a row, on this machine.
    Demo,
    /// A memory hog in an emulated guest.
    GuestMemory {
        #[command(flatten)]
        how: How,
    },
    /// Page cache that is in use, and a hog: cases 14 and 15. The file (or disk) has 96 MiB or more.
    GuestCache { file: PathBuf },
    /// Short of PIDs, with time to spare: a soft victim that ignores the request to leave.
    Pids,
    /// The kernel's OOM killer strikes: its victim is told, with its cgroup.
    Oom {
        /// Without eBPF: by the kernel's counters.
        #[arg(long)]
        timer: bool,
        /// In a cgroup namespace of its own.
        #[arg(long)]
        namespace: bool,
    },
    /// An inode hog in an emulated guest, on a ready ext4 image.
    GuestInodes {
        image: PathBuf,
        #[command(flatten)]
        how: How,
    },
    /// The kernel side's counts of disk space and inodes against `statfs`.
    DiskOracle {
        #[command(flatten)]
        args: OracleArgs,
    },
    /// Watch a hog of somebody else's: what it takes past a line, until somebody else ends it.
    Crossing {
        /// The page that it shares.
        #[arg(long)]
        progress: PathBuf,
        /// All that it wants, in bytes.
        #[arg(long)]
        total: u64,
        /// A cgroup that it is in.
        #[arg(long)]
        group: PathBuf,
        /// Working set of that cgroup, in bytes.
        #[arg(long)]
        line: u64,
    },
    /// Cross a line at random, again and again: a look has to begin before 4 MiB more are used.
    Soundness {
        #[command(flatten)]
        what: Random,
        /// Crossings of each line.
        #[arg(long, default_value_t = 20)]
        crossings: u64,
    },
    /// Count program runs and wasted looks for what is charged far from the line.
    ChargeRuns {
        #[command(flatten)]
        what: Random,
        /// How much is charged, in MiB.
        #[arg(long, default_value_t = 1024)]
        charge: u64,
        /// How far the line is away, in MiB.
        #[arg(long, default_value_t = 200)]
        distance: u64,
        /// Fail when a program runs more often than once in so many pages.
        #[arg(long)]
        pages_per_run: Option<u64>,
    },
}

#[derive(Debug, clap::Args)]
struct OracleArgs {
    /// A kind of file system (ext4, xfs, btrfs, tmpfs, overlay) and, for all but tmpfs, the device or image with an empty
    /// one on it (for overlay: an ext4). May be given again.
    #[arg(long, value_name = "KIND[=DEVICE]", value_parser = on_device, required = true)]
    fs: Vec<(Fs, Option<PathBuf>)>,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Random steps after the single operations.
    #[arg(long, default_value_t = 200)]
    steps: u32,
    /// Use only these hooks, as `eviction doctor` names them.
    #[arg(long, value_delimiter = ',')]
    rungs: Option<Vec<Rung>>,
}

fn on_device(text: &str) -> Result<(Fs, Option<PathBuf>), String> {
    let (kind, device) = text
        .split_once('=')
        .map_or((text, None), |(kind, device)| (kind, Some(device.into())));
    Ok((Fs::from_str(kind, true)?, device))
}

impl OracleArgs {
    fn run(self) -> anyhow::Result<(Value, Vec<String>)> {
        let facts = Facts::gather(&FactsOptions::default());
        let (mut reports, mut faults) = (Vec::new(), Vec::new());
        for (fs, device) in self.fs {
            let oracle = DiskOracle {
                fs,
                device,
                seed: self.seed,
                steps: self.steps,
                rungs: self.rungs.clone(),
            };
            let compared = oracle.run(&facts)?;
            eprintln!("{compared}");
            faults.extend(
                compared
                    .faults
                    .iter()
                    .map(|fault| format!("{fs:?}: {fault}")),
            );
            reports.push(serde_json::to_value(&compared)?);
        }
        Ok((Value::Array(reports), faults))
    }
}

#[derive(Debug, clap::Args)]
struct Random {
    /// The lines to cross.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "node,group")]
    lines: Vec<WhichLine>,
    /// Where the choices begin.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A device with an ext4, for file pages.
    #[arg(long)]
    disk: Option<PathBuf>,
    /// A device that was made swap.
    #[arg(long)]
    swap: Option<PathBuf>,
    /// Use only these hooks (`eviction run --rungs`).
    #[arg(long)]
    rungs: Option<String>,
    /// Let every credit that is used up lead to a look (`eviction run --no-compare`).
    #[arg(long)]
    no_compare: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhichLine {
    Node,
    Group,
}

impl Random {
    fn settings(&self, crossings: u64) -> impl Iterator<Item = Settings> {
        self.lines.iter().map(move |line| {
            let line = match line {
                WhichLine::Node => Line::Node,
                WhichLine::Group => Line::Group,
            };
            let mut settings = Settings::new(line, crossings, self.seed);
            settings.disk.clone_from(&self.disk);
            settings.swap.clone_from(&self.swap);
            let rungs = self.rungs.iter().map(|rungs| format!("--rungs={rungs}"));
            let compare = self.no_compare.then(|| "--no-compare".to_owned());
            settings.extra_args.extend(rungs.chain(compare));
            settings
        })
    }
}

#[derive(Debug, clap::Args)]
struct How {
    /// Without eBPF.
    #[arg(long)]
    timer: bool,
    /// Use only these hooks (`eviction run --rungs`).
    #[arg(long)]
    rungs: Option<String>,
    /// Record the run into this directory (`eviction run --record`).
    #[arg(long)]
    record: Option<String>,
    /// Take this CPU away and give it back first, and run the hog on it alone.
    #[arg(long)]
    replug: Option<usize>,
    /// What must have led to the decision; without it anything may have.
    #[arg(long)]
    expect_source: Option<String>,
}

impl How {
    fn memory_story(&self) -> MemoryStory {
        let mut story = MemoryStory::guest(self.events());
        story.replugged = self.replug;
        story
            .extra_args
            .extend(self.record.iter().map(|dir| format!("--record={dir}")));
        story
    }

    fn events(&self) -> Events {
        match &self.rungs {
            Some(rungs) => Events::Rungs(rungs.clone()),
            None if self.timer => Events::Timer,
            None => Events::Auto,
        }
    }
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    interrupt::catch()?;
    let own = std::env::current_exe()?;
    let programs = Programs::in_folder(own.parent().unwrap_or(&own));
    let (report, faults) = match args.story {
        Story::Demo => {
            let demo = Demo::run(&programs, &mut |line| {
                if args.output == Output::Text {
                    println!("{line}");
                }
            })?;
            (demo.json(), demo.faults())
        }
        Story::GuestMemory { how } => {
            let outcome = how.memory_story().run(&programs)?;
            // Times mean nothing under emulation: what counts is who died, by which rung, and no OOM kill.
            let mut faults = right_victim("memory", &outcome.victim, outcome.siblings_alive);
            if outcome.oom_kills > 0 {
                faults.extend(
                    memory_faults(&outcome)
                        .into_iter()
                        .filter(|f| f.contains("OOM")),
                );
            }
            faults.extend(wrong_source(&outcome.source, how.expect_source.as_deref()));
            (serde_json::to_value(&outcome)?, faults)
        }
        Story::Pids => {
            let outcome = pids::run(&programs)?;
            (serde_json::to_value(&outcome)?, outcome.faults())
        }
        Story::GuestCache { file } => {
            let outcome = cache::run(&programs, &file, 30 << 20)?;
            (serde_json::to_value(&outcome)?, outcome.faults())
        }
        Story::Oom { timer, namespace } => {
            let events = if timer { Events::Timer } else { Events::Auto };
            let story = OomStory {
                in_namespace: namespace,
                ..OomStory::new(events)
            };
            let told = story.run(&programs)?;
            let faults = told.faults(timer);
            (Value::String(format!("{told:?}")), faults)
        }
        Story::DiskOracle { args } => args.run()?,
        Story::GuestInodes { image, how } => {
            let outcome = InodeStory::guest(image, how.events()).run(&programs)?;
            let mut faults = right_victim("inodes", &outcome.victim, outcome.siblings_alive);
            faults.extend(
                inode_faults(&outcome)
                    .into_iter()
                    .filter(|f| f.contains("ENOSPC")),
            );
            faults.extend(wrong_source(&outcome.source, how.expect_source.as_deref()));
            (serde_json::to_value(&outcome)?, faults)
        }
        Story::Crossing {
            progress,
            total,
            group,
            line,
        } => {
            let version = Hierarchy::detect()?.version;
            let group = GroupMemoryReader::open(&CgroupDir::open(&group)?, version)?;
            let progress = Progress::open(&progress)?;
            let stopped = crossing::watch(progress.page(), total, &group, line)?;
            (serde_json::to_value(stopped)?, Vec::new())
        }
        Story::Soundness { what, crossings } => soundness(&programs, &what, crossings)?,
        Story::ChargeRuns {
            what,
            charge,
            distance,
            pages_per_run,
        } => {
            let mut reports = Vec::new();
            for settings in what.settings(0) {
                reports.push(charge_runs(&programs, &settings, charge, distance)?);
            }
            let faults = reports
                .iter()
                .filter_map(|report| too_many_runs(report, pages_per_run?))
                .collect();
            (serde_json::to_value(&reports)?, faults)
        }
    };
    Ok(verdict(args.output, &report, &faults))
}

fn soundness(programs: &Programs, what: &Random, crossings: u64) -> Result<(Value, Vec<String>)> {
    let (mut reports, mut faults) = (Vec::new(), Vec::new());
    for settings in what.settings(crossings) {
        let report = soundness::run(programs, &settings)?;
        eprintln!("{report}");
        // At once: the next line may end in an error.
        for fault in &report.faults {
            eprintln!("  {fault}");
        }
        faults.extend(report.faults.iter().cloned());
        reports.push(report);
    }
    Ok((serde_json::to_value(&reports)?, faults))
}

fn too_many_runs(report: &ChargeRuns, pages_per_run: u64) -> Option<String> {
    // A few runs are other people's: whoever else is charged meanwhile.
    let allowed = report.pages / pages_per_run + report.pages / 1000 + 50;
    (report.program_runs > allowed).then(|| {
        format!(
            "{} program runs for {} pages charged, allowed are {allowed}",
            report.program_runs, report.pages
        )
    })
}

fn wrong_source(source: &str, expected: Option<&str>) -> Option<String> {
    let expected = expected?;
    let right = source == expected || (is_timer(expected) && is_timer(source));
    (!right).then(|| format!("the decision was woken by {source:?}, expected {expected:?}"))
}

fn verdict(output: Output, report: &Value, faults: &[String]) -> ExitCode {
    if output == Output::Json {
        println!("{report}");
    }
    for fault in faults {
        eprintln!("not as it should be: {fault}");
    }
    if faults.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
