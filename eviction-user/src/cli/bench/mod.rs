//! `eviction bench`: measures on this machine, prints a table or JSON.

mod cost;
mod idle;
mod kill;
mod notify;

use super::source::rung;
use super::{Exit, Failure, stop};
use crate::bench::{self, BenchError, Stop};
use crate::bpf::Rung;
use crate::telemetry::record::Output;
use clap::{Args, Subcommand};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// How soon a crossing of a memory line is heard of: by us, by what the kernel offers, by polling.
    Notify(notify::NotifyArgs),
    /// How far past the line a victim comes before it is dead.
    Kill(kill::KillArgs),
    /// What the hooks cost: page faults, new files, writes and forks with and without them.
    Cost(cost::CostArgs),
    /// What an idle node pays: CPU time and memory of `eviction run`.
    Idle(idle::IdleArgs),
    /// What a benchmark starts to have something to measure.
    #[command(hide = true)]
    Helper {
        /// cgroup directories to join first, one per hierarchy.
        #[arg(long = "cgroup")]
        cgroups: Vec<PathBuf>,
    },
}

pub(super) fn bench(args: &BenchArgs) -> Result<Exit, Failure> {
    match &args.what {
        What::Notify(args) => notify::notify(args),
        What::Kill(args) => kill::kill(args),
        What::Cost(args) => cost::cost(args),
        What::Idle(args) => idle::idle(args),
        What::Helper { cgroups } => bench::help(cgroups)
            .map(|()| Exit::Good)
            .map_err(|e| Failure::runtime(&e)),
    }
}

/// What `--output json` prints.
#[derive(Debug, Serialize)]
struct Results<T> {
    results: Vec<T>,
}

impl<T: Serialize> Results<T> {
    fn print(&self) -> Result<(), Failure> {
        print_json(self)
    }
}

fn print_json(figures: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(figures).map_err(|e| Failure::runtime(&e))?;
    super::table::print(&text);
    Ok(())
}

/// Runs a benchmark until it is done, or until the process is told to stop; then it clears up first.
fn carry_out<T: Send + 'static>(
    body: impl FnOnce(&Stop) -> Result<T, BenchError> + Send + 'static,
) -> Result<T, Failure> {
    let told = Stop::default();
    let heard = told.clone();
    let (alive, ended) = stop::watched();
    let thread = std::thread::Builder::new()
        .name("bench".into())
        .spawn(move || {
            let _alive = alive;
            body(&heard)
        })
        .map_err(|e| Failure::runtime(&e))?;
    stop::wait_for(ended, None).map_err(|e| Failure::runtime(&e))?;
    told.now();
    match thread.join() {
        Ok(done) => done.map_err(failure),
        Err(_) => Err(Failure::runtime(
            &"the benchmark ended unexpectedly; see the message above",
        )),
    }
}

fn failure(error: BenchError) -> Failure {
    let exit = match &error {
        BenchError::NoHook | BenchError::NoStormHook(_) => Exit::FallbackOnly,
        BenchError::Realtime(_) => Exit::Privilege,
        _ => Exit::Runtime,
    };
    Failure {
        text: error.to_string(),
        exit,
    }
}

/// About an `eviction run` that is measured as a whole.
#[derive(Debug, Args)]
struct ProductArgs {
    /// Use only these hooks, as `eviction doctor` names them, separated by commas.
    #[arg(long, value_name = "RUNGS")]
    rungs: Option<String>,
    /// How the figures are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

impl ProductArgs {
    fn run_args(&self) -> Vec<String> {
        let rungs = self.rungs.iter();
        rungs.map(|rungs| format!("--rungs={rungs}")).collect()
    }

    /// The same for hooks that the benchmark attaches itself.
    fn allowed(&self) -> Result<Option<Vec<Rung>>, Failure> {
        let parse = |rungs: &String| rungs.split(',').map(rung).collect();
        let rungs = self.rungs.as_ref().map(parse).transpose();
        rungs.map_err(|error: String| Failure::usage(&format!("--rungs: {error}")))
    }
}

/// One digit after the point: what the clocks are good for.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
