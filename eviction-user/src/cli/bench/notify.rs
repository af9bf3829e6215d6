//! `eviction bench notify`.

use super::{Results, carry_out, tenths};
use crate::bench::Storm;
use crate::bench::notify::{self, LISTENING, Row, Settings, Source};
use crate::cli::source::{self, BpfArgs};
use crate::cli::table::{self, table};
use crate::cli::{Exit, Failure};
use crate::sys::cgroup::{Hierarchy, Version};
use crate::telemetry::record::Output;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct NotifyArgs {
    /// Crossings for each source.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// What else the machine does meanwhile.
    #[arg(long, value_enum, default_value = "none")]
    load: Load,
    /// Measures each crossing once without and once while a process per CPU does this as fast as it can.
    #[arg(long, value_enum)]
    storm: Option<StormKind>,
    /// A directory on the file system that a storm of inodes makes its files on.
    #[arg(long, value_name = "PATH", default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
    /// How the figures are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    bpf: BpfArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Load {
    /// Nothing.
    None,
    /// Two spinning processes for each CPU.
    Cpu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StormKind {
    /// Makes and removes files.
    Inodes,
    /// Makes processes.
    Forks,
}

impl From<StormKind> for Storm {
    fn from(kind: StormKind) -> Self {
        match kind {
            StormKind::Inodes => Self::Inodes,
            StormKind::Forks => Self::Forks,
        }
    }
}

/// What raged, and what was told of it.
#[derive(Debug, Serialize)]
struct StormFigures {
    storm: &'static str,
    storm_armings: u64,
    storm_events: u64,
    storm_units: u64,
}

/// One line of the result. Times in microseconds; none where no crossing was heard.
#[derive(Debug, Serialize)]
struct Figures {
    source: &'static str,
    rung: &'static str,
    load: Load,
    rounds: u64,
    missed: u64,
    p50_us: Option<f64>,
    p90_us: Option<f64>,
    p99_us: Option<f64>,
    max_us: Option<f64>,
    #[serde(flatten)]
    storm: Option<StormFigures>,
}

impl Figures {
    fn new(row: &Row, load: Load) -> Self {
        let percentile = |percent| row.latencies.percentile(percent).map(tenths);
        Self {
            source: row.source.name(),
            rung: row.rung,
            load,
            rounds: row.rounds,
            missed: row.missed,
            p50_us: percentile(50.0),
            p90_us: percentile(90.0),
            p99_us: percentile(99.0),
            max_us: row.latencies.max().map(tenths),
            storm: row.storm.map(|storm| StormFigures {
                storm: storm.storm.name(),
                storm_armings: storm.armings,
                storm_events: storm.events,
                storm_units: storm.units,
            }),
        }
    }

    fn cells(&self) -> Vec<String> {
        let time = |value: Option<f64>| value.map_or("-".to_owned(), |us| format!("{us:.1}"));
        let storm = self.storm.as_ref().map_or("", |storm| storm.storm);
        vec![
            format!("{} {storm}", self.source).trim_end().to_owned(),
            self.rung.to_owned(),
            self.rounds.to_string(),
            self.missed.to_string(),
            time(self.p50_us),
            time(self.p90_us),
            time(self.p99_us),
            time(self.max_us),
        ]
    }
}

const HEADER: [&str; 8] = [
    "source", "by", "rounds", "missed", "p50 us", "p90 us", "p99 us", "max us",
];

pub(in crate::cli) fn notify(args: &NotifyArgs) -> Result<Exit, Failure> {
    let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
    if hierarchy.version == Version::V2 {
        tracing::info!(
            "cgroup v2 has no eventfd for a usage: memory.events, with the line as memory.high, stands in for it"
        );
    }
    let settings = Settings {
        rounds: args.rounds,
        busy: args.load == Load::Cpu,
        storm: args
            .storm
            .map(|storm| (storm.into(), args.directory.clone())),
    };
    let options = args.bpf.options();
    let rows = carry_out(move |stop| {
        notify::run(settings, &hierarchy, move || source::attach(&options), stop)
    })?;
    let figures: Vec<_> = rows
        .iter()
        .map(|row| Figures::new(row, args.load))
        .collect();
    match args.output {
        Output::Json => Results { results: figures }.print()?,
        Output::Text => {
            table::print(&table(&HEADER, figures.iter().map(Figures::cells)));
            if let Some(words) = storm_comparison(&rows).or_else(|| comparison(&rows)) {
                table::print(&words);
            }
            let missed: u64 = rows.iter().map(|row| row.missed).sum();
            if missed > 0 {
                table::print(&format!(
                    "missed: not heard of within {} s",
                    LISTENING.as_secs()
                ));
            }
        }
    }
    Ok(Exit::Good)
}

/// With and without the storm; `None` if there was none.
fn storm_comparison(rows: &[Row]) -> Option<String> {
    let own = |stormy: bool| {
        let mut rows = rows.iter();
        rows.find(|row| row.source == Source::Bpf && row.storm.is_some() == stormy)
    };
    let (quiet, stormy) = (own(false)?, own(true)?);
    let storm = stormy.storm?;
    let times = stormy.latencies.percentile(99.0)? / quiet.latencies.percentile(99.0)?;
    Some(format!(
        "p99 of bpf during a storm of {name}: {times:.2} of that without; {} {name} were told by {} events in {} armings",
        storm.units,
        storm.events,
        storm.armings,
        name = storm.storm.name(),
    ))
}

/// Our 99th percentile beside those of the others.
fn comparison(rows: &[Row]) -> Option<String> {
    let p99 = |source: Source| {
        let row = rows.iter().find(|row| row.source == source)?;
        row.latencies.percentile(99.0)
    };
    let own = p99(Source::Bpf)?;
    let others = rows.iter().filter(|row| row.source != Source::Bpf);
    let ratios = others.filter_map(|row| {
        let times = own / p99(row.source)?;
        Some(format!("{times:.4} of {}", row.source.name()))
    });
    let ratios: Vec<_> = ratios.collect();
    Some(format!("p99 of bpf: {}", ratios.join(", ")))
}
