//! `eviction bench cost`.

use super::{ProductArgs, carry_out, tenths};
use crate::bench::cost::{
    self, Computed, Cost, Pairs, Runs, Settings, Work, computed_fentry_share,
};
use crate::bpf::AttachOptions;
use crate::cli::table::{self, table};
use crate::cli::{Exit, Failure};
use crate::sys::cgroup::Hierarchy;
use crate::telemetry::record::Output;
use clap::builder::PossibleValuesParser;
use clap::{Args, value_parser};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(in crate::cli) struct CostArgs {
    /// How often each kind of loop is timed with and without hooks, one at once after the other.
    #[arg(long, value_name = "N", default_value = "301", value_parser = value_parser!(u64).range(1..))]
    pairs: u64,
    /// How long one loop is to take.
    #[arg(long, value_name = "MS", default_value = "20", value_parser = value_parser!(u64).range(1..=10_000))]
    loop_millis: u64,
    /// A directory on the file system whose inodes are watched; the loops make their files in it.
    #[arg(long, value_name = "PATH", default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
    /// Only this kind of loop; give it once for each.
    #[arg(long = "loop", value_name = "NAME", value_parser = PossibleValuesParser::new(Work::ALL.map(Work::name)))]
    works: Vec<String>,
    #[command(flatten)]
    product: ProductArgs,
}

impl CostArgs {
    fn works(&self) -> Vec<Work> {
        let asked = |work: &Work| self.works.iter().any(|name| name == work.name());
        let works = Work::ALL.into_iter();
        works
            .filter(|work| self.works.is_empty() || asked(work))
            .collect()
    }
}

#[derive(Debug, Serialize)]
struct Figures {
    sources: BTreeMap<String, String>,
    results: Vec<LoopFigures>,
    programs: Vec<ProgramFigures>,
    fentry: Option<FentryFigures>,
}

/// Time with hooks divided by time without.
#[derive(Debug, Serialize)]
struct LoopFigures {
    #[serde(rename = "loop")]
    work: &'static str,
    pairs: usize,
    operations: u64,
    plain_ns: f64,
    ratio: Option<f64>,
    /// The 95 % interval of the median ratio; none below six pairs.
    ratio_low: Option<f64>,
    ratio_high: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ProgramFigures {
    rung: &'static str,
    program: String,
    #[serde(rename = "loop")]
    work: &'static str,
    runs_per_operation: f64,
    ns_per_run: f64,
    share_percent: f64,
}

/// The computed cost of the fentry rung per page fault.
#[derive(Debug, Serialize)]
struct FentryFigures {
    runs_per_fault: f64,
    ns_per_run: f64,
    ns_from: String,
    ns_per_fault: f64,
    share_percent: f64,
}

pub(in crate::cli) fn cost(args: &CostArgs) -> Result<Exit, Failure> {
    let hierarchy = Hierarchy::detect().map_err(|e| Failure::runtime(&e))?;
    if !args.directory.is_dir() {
        return Err(Failure::usage(&format!(
            "--directory: {} is no directory; name one on the file system that is to be watched",
            args.directory.display()
        )));
    }
    let settings = Settings {
        pairs: args.pairs,
        loop_time: Duration::from_millis(args.loop_millis),
        directory: args.directory.clone(),
        works: args.works(),
        run_args: args.product.run_args(),
        attach: AttachOptions {
            allow: args.product.allowed()?,
            ..AttachOptions::default()
        },
    };
    let cost = carry_out(move |stop| cost::run(&settings, &hierarchy, stop))?;
    let figures = Figures::new(cost);
    match args.product.output {
        Output::Json => super::print_json(&figures)?,
        Output::Text => figures.print(),
    }
    Ok(Exit::Good)
}

impl Figures {
    fn new(cost: Cost) -> Self {
        let faults = cost
            .pairs
            .iter()
            .find(|pairs| pairs.work == Work::PageFaults);
        let fentry =
            faults.and_then(|faults| computed_fentry_share(&cost.programs, faults.plain_ns));
        Self {
            results: cost.pairs.iter().map(LoopFigures::new).collect(),
            programs: cost.programs.into_iter().map(ProgramFigures::new).collect(),
            fentry: fentry.map(FentryFigures::new),
            sources: cost.sources,
        }
    }

    fn print(&self) {
        let sources = self
            .sources
            .iter()
            .map(|(family, hook)| vec![family.clone(), hook.clone()]);
        table::print(&format!("{}\n", table(&["events of", "from"], sources)));
        let header = [
            "loop",
            "pairs",
            "ns each",
            "with/without",
            "95 % from",
            "to",
        ];
        table::print(&table(&header, self.results.iter().map(LoopFigures::cells)));
        table::print("");
        let header = [
            "hook",
            "program",
            "loop",
            "runs each",
            "ns a run",
            "share %",
        ];
        table::print(&table(
            &header,
            self.programs.iter().map(ProgramFigures::cells),
        ));
        if let Some(fentry) = &self.fentry {
            table::print(&format!(
                "\nfentry, computed: {} runs a fault x {} ns ({}) / {} ns a fault = {} %",
                fentry.runs_per_fault,
                fentry.ns_per_run,
                fentry.ns_from,
                fentry.ns_per_fault,
                fentry.share_percent
            ));
        }
    }
}

impl LoopFigures {
    fn new(pairs: &Pairs) -> Self {
        let ratio = pairs.ratio();
        let interval = ratio.and_then(|ratio| ratio.interval);
        Self {
            work: pairs.work.name(),
            pairs: pairs.ratios.len(),
            operations: pairs.count,
            plain_ns: tenths(pairs.plain_ns),
            ratio: ratio.map(|ratio| fine(ratio.value)),
            ratio_low: interval.map(|(low, _)| fine(low)),
            ratio_high: interval.map(|(_, high)| fine(high)),
        }
    }

    fn cells(&self) -> Vec<String> {
        let ratio =
            |value: Option<f64>| value.map_or("-".to_owned(), |ratio| format!("{ratio:.4}"));
        vec![
            self.work.to_owned(),
            self.pairs.to_string(),
            self.plain_ns.to_string(),
            ratio(self.ratio),
            ratio(self.ratio_low),
            ratio(self.ratio_high),
        ]
    }
}

impl ProgramFigures {
    fn new(runs: Runs) -> Self {
        Self {
            rung: runs.rung,
            program: runs.program,
            work: runs.work.name(),
            runs_per_operation: fine(runs.runs_per_operation),
            ns_per_run: tenths(runs.ns_per_run),
            share_percent: fine(runs.share_percent),
        }
    }

    fn cells(&self) -> Vec<String> {
        vec![
            self.rung.to_owned(),
            self.program.clone(),
            self.work.to_owned(),
            format!("{:.4}", self.runs_per_operation),
            format!("{:.1}", self.ns_per_run),
            format!("{:.3}", self.share_percent),
        ]
    }
}

impl FentryFigures {
    fn new(computed: Computed) -> Self {
        Self {
            runs_per_fault: fine(computed.runs_per_fault),
            ns_per_run: tenths(computed.ns_per_run),
            ns_from: computed.ns_from,
            ns_per_fault: tenths(computed.ns_per_fault),
            share_percent: fine(computed.share_percent),
        }
    }
}

/// Four digits after the point: a hundredth of a percent.
fn fine(value: f64) -> f64 {
    (value * 10_000.0).round() / 10_000.0
}
