//! `eviction bench kill`.

use super::{ProductArgs, Results, carry_out, tenths};
use crate::bench::kill::{self, Row, Settings};
use crate::bench::stats::Sorted;
use crate::cli::table::{self, table};
use crate::cli::{Exit, Failure};
use crate::sys::cgroup::Hierarchy;
use crate::telemetry::record::Output;
use clap::{Args, value_parser};
use serde::Serialize;

#[derive(Debug, Args)]
pub(in crate::cli) struct KillArgs {
    /// Victims at each rate.
    #[arg(long, value_name = "N", default_value = "20", value_parser = value_parser!(u64).range(1..))]
    rounds: u64,
    /// How fast the victims take memory, in MiB a second, separated by commas.
    #[arg(long, value_name = "RATES", default_value = "50,500,2000", value_delimiter = ',',
          value_parser = value_parser!(u64).range(1..=100_000))]
    rates: Vec<u64>,
    #[command(flatten)]
    product: ProductArgs,
}

/// One line of the result.
#[derive(Debug, Serialize)]
struct Figures {
    rung: String,
    rate_mib_s: u64,
    rounds: u64,
    /// Rounds in which the victim ran into its limit first.
    too_late: u64,
    /// Rounds in which it was killed before the line.
    too_early: u64,
    stopped_p50_us: Option<f64>,
    stopped_max_us: Option<f64>,
    overshoot_p50_mib: Option<f64>,
    overshoot_max_mib: Option<f64>,
}

impl Figures {
    fn new(row: Row) -> Self {
        let median = |sorted: &Sorted| sorted.median().map(|median| median.value);
        Self {
            stopped_p50_us: median(&row.stopped_us).map(tenths),
            stopped_max_us: row.stopped_us.max().map(tenths),
            overshoot_p50_mib: median(&row.overshoot_mib).map(hundredths),
            overshoot_max_mib: row.overshoot_mib.max().map(hundredths),
            rung: row.rung,
            rate_mib_s: row.rate,
            rounds: row.rounds,
            too_late: row.too_late,
            too_early: row.too_early,
        }
    }

    fn cells(&self) -> Vec<String> {
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |v| v.to_string());
        vec![
            format!("{} MiB/s", self.rate_mib_s),
            self.rung.clone(),
            self.rounds.to_string(),
            self.too_late.to_string(),
            self.too_early.to_string(),
            number(self.stopped_p50_us),
            number(self.stopped_max_us),
            number(self.overshoot_p50_mib),
            number(self.overshoot_max_mib),
        ]
    }
}

const HEADER: [&str; 9] = [
    "rate",
    "by",
    "rounds",
    "too late",
    "too early",
    "stopped p50 us",
    "max us",
    "overshoot p50 MiB",
    "max MiB",
];

pub(in crate::cli) fn kill(args: &KillArgs) -> Result<Exit, Failure> {
    let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
    let settings = Settings {
        rounds: args.rounds,
        rates: args.rates.clone(),
        run_args: args.product.run_args(),
    };
    let rows = carry_out(move |stop| kill::run(&settings, &hierarchy, stop))?;
    let results: Vec<_> = rows.into_iter().map(Figures::new).collect();
    match args.product.output {
        Output::Json => Results { results }.print()?,
        Output::Text => table::print(&table(&HEADER, results.iter().map(Figures::cells))),
    }
    Ok(Exit::Good)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
