//! Entry point of `cargo xtask`: parse, run, report.

mod cli;
mod guest;
mod node;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use cli::{BenchCommand, Cli, Command};
use xtask::workspace::Workspace;
use xtask::{bench, build, check, demo, image, manifests, mutants, setup, soak, suites};

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    let workspace = Workspace::find()?;
    match command {
        Command::Setup { dry_run } => setup::run(&workspace, dry_run)?,
        Command::Build => build::run(&workspace)?,
        Command::Image => image::run(&workspace)?,
        Command::Manifests => manifests::run(&workspace)?,
        Command::Check => return Ok(check::run(&workspace)),
        Command::Test(args) if args.list => suites::list(),
        Command::Test(args) => return suites::run(&workspace, &args.suites, &args.filter),
        Command::Mutants { filter } => return mutants::run(&workspace, &filter),
        Command::Demo { output } => return demo::run(&workspace, output.name()),
        Command::Soak(args) => return soak::run(&workspace, &args.into()),
        Command::Bench(BenchCommand::Cluster {
            runs,
            guest,
            output,
        }) => {
            let runs = format!("--runs={runs}");
            let what = if guest {
                vec![runs, "--guest".to_owned()]
            } else {
                vec![runs]
            };
            return bench::cluster(&workspace, &what, guest, output.name());
        }
        Command::Bench(BenchCommand::Pairing { hogs, output }) => {
            let what = [format!("--pairing={hogs}")];
            return bench::cluster(&workspace, &what, false, output.name());
        }
        Command::Cluster(command) => return node::run(&workspace, command),
        Command::Vm(args) => return guest::run(&workspace, args),
    }
    Ok(ExitCode::SUCCESS)
}
