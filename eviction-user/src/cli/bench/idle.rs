//! `eviction bench idle`.

use super::{ProductArgs, Results, carry_out, tenths};
use crate::bench::idle::{self, Settings};
use crate::cli::table::{self, table};
use crate::cli::{Exit, Failure};
use crate::sys::cgroup::Hierarchy;
use crate::telemetry::record::Output;
use clap::{Args, value_parser};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(in crate::cli) struct IdleArgs {
    /// For how long.
    #[arg(long, value_name = "N", default_value = "60", value_parser = value_parser!(u64).range(1..))]
    seconds: u64,
    /// cgroups below the watched one.
    #[arg(long, value_name = "N", default_value = "110", value_parser = value_parser!(u64).range(1..=10_000))]
    cgroups: u64,
    /// What a workload in one of them takes and gives back, in MiB a second.
    #[arg(long, value_name = "RATE", default_value = "10", value_parser = value_parser!(u64).range(1..=100_000))]
    charging: u64,
    /// A path on the file system whose inodes are watched.
    #[arg(long, value_name = "PATH", default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
    #[command(flatten)]
    product: ProductArgs,
}

#[derive(Debug, Serialize)]
struct Figures {
    rung: String,
    seconds: f64,
    cgroups: u64,
    charging_mib_s: u64,
    cpu_percent: f64,
    rss_mib: f64,
}

const HEADER: [&str; 6] = [
    "by",
    "seconds",
    "cgroups",
    "charging MiB/s",
    "CPU %",
    "resident MiB",
];

pub(in crate::cli) fn idle(args: &IdleArgs) -> Result<Exit, Failure> {
    let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
    let settings = Settings {
        seconds: args.seconds,
        cgroups: args.cgroups,
        charging: args.charging,
        directory: args.directory.clone(),
        run_args: args.product.run_args(),
    };
    let row = carry_out(move |stop| idle::run(&settings, &hierarchy, stop))?;
    let figures = Figures {
        rung: row.rung,
        seconds: tenths(row.seconds),
        cgroups: row.cgroups,
        charging_mib_s: row.charging,
        cpu_percent: (row.cpu_percent * 1000.0).round() / 1000.0,
        rss_mib: tenths(row.rss_mib),
    };
    match args.product.output {
        Output::Json => Results {
            results: vec![figures],
        }
        .print()?,
        Output::Text => {
            let cells = vec![
                figures.rung,
                figures.seconds.to_string(),
                figures.cgroups.to_string(),
                figures.charging_mib_s.to_string(),
                format!("{:.3}", figures.cpu_percent),
                figures.rss_mib.to_string(),
            ];
            table::print(&table(&HEADER, [cells]));
        }
    }
    Ok(Exit::Good)
}
