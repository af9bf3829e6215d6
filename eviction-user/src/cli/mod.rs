//! The command line: parses, wires the adapters, reports. Exit codes are in [`exit`].

mod bench;
mod config;
mod doctor;
mod eviction_args;
mod exit;
mod explain;
mod fs_args;
mod guards;
mod host_args;
mod kube_args;
mod kubelet_args;
mod kubelet_watch;
mod metrics;
mod node;
mod pairing;
mod place;
mod recording;
mod replay;
mod run;
mod runtime_args;
mod runtime_disks;
mod runtime_reclaim;
mod source;
mod stop;
mod table;
mod trace;

pub use exit::Exit;

use crate::sys::heap;
use crate::telemetry::logging::{self, LogFormat};
use clap::{Parser, Subcommand};

/// Watches a node's memory and inodes with eBPF and evicts one well-chosen workload before the kernel's
/// OOM killer or a full file system strikes.
///
/// Exit codes: 0 good, 1 runtime failure, 2 usage or configuration, 3 only the fallback works,
/// 4 privilege missing.
#[derive(Debug, Parser)]
#[command(name = "eviction", version, max_term_width = 100)]
struct Args {
    /// What to log on stderr: a level, or a filter in the syntax of RUST_LOG. The default leaves out the HTTP client's own word
    /// on each failed request: what becomes of it is logged.
    #[arg(
        long,
        global = true,
        env = "RUST_LOG",
        default_value = "info,kube_client::client::builder=off"
    )]
    log_level: String,
    /// How to log.
    #[arg(long, global = true, value_enum, default_value = "auto")]
    log_format: LogFormat,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Watches and evicts.
    Run(run::RunArgs),
    /// Prints one line per kernel event; evicts nothing.
    Trace(trace::TraceArgs),
    /// Feeds a recording of `run --record` to the engine again, or asks what another configuration would
    /// have done.
    Replay(replay::ReplayArgs),
    /// Tells what this node offers, what will be used, and how to get what is missing.
    Doctor(doctor::DoctorArgs),
    /// Tells what is measured now, who would go, and why the others not; evicts nothing.
    Explain(explain::ExplainArgs),
    /// Removes from nodes what a DaemonSet that is gone has left there.
    Node(node::NodeArgs),
    /// Checks, shows and imports configuration files.
    Config(config::ConfigArgs),
    /// Measures what the kernel side is worth on this machine, and what it costs.
    Bench(bench::BenchArgs),
}

/// Runs the program with the arguments of this process.
pub fn main() -> Exit {
    heap::stay_small();
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(e) => {
            // Help and version come this way too, and are no errors. A closed pipe is none of ours.
            let _ = e.print();
            return if e.use_stderr() {
                Exit::Usage
            } else {
                Exit::Good
            };
        }
    };
    let done = logging::init(&args.log_level, args.log_format)
        .map_err(|e| Failure::usage(&e))
        .and_then(|()| match args.command {
            Command::Run(args) => run::run(&args),
            Command::Trace(args) => trace::trace(&args),
            Command::Replay(args) => replay::replay(&args),
            Command::Doctor(args) => doctor::doctor(&args),
            Command::Explain(args) => explain::explain(&args),
            Command::Node(args) => node::node(&args),
            Command::Config(args) => config::config(&args),
            Command::Bench(args) => bench::bench(&args),
        });
    match done {
        Ok(exit) => exit,
        Err(failure) => {
            eprintln!("error: {}", failure.text);
            failure.exit
        }
    }
}

/// Why a command ends early: what to say, and with which code.
#[derive(Debug)]
struct Failure {
    text: String,
    exit: Exit,
}

impl Failure {
    fn usage(error: &(impl std::fmt::Display + ?Sized)) -> Self {
        Self {
            text: error.to_string(),
            exit: Exit::Usage,
        }
    }

    fn runtime(error: &impl std::fmt::Display) -> Self {
        Self {
            text: error.to_string(),
            exit: Exit::Runtime,
        }
    }

    fn privilege(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            exit: Exit::Privilege,
        }
    }
}
