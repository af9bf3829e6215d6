//! `eviction config`: is a file good, what is in force, and a kubelet's settings in our own words.

use super::eviction_args::EvictionArgs;
use super::table::{print, table};
use super::{Exit, Failure};
use crate::config::{Effective, EvictionFlags, Warning};
use crate::telemetry::record::Output;
use clap::{Args, Subcommand};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Tells whether a file can be used, and what in it is surely meant otherwise.
    ///
    /// Understands our own kind, a KubeletConfiguration and a saved /configz. Exit code 0: good (there
    /// may be warnings), 2: not.
    Check { file: PathBuf },
    /// Prints every setting in force and where it comes from.
    Effective(EffectiveArgs),
    /// Writes the eviction settings of a kubelet as a file of our own kind.
    Import {
        /// A KubeletConfiguration, or a saved /configz answer.
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// Where to write it; must not exist yet. Default: standard output.
        #[arg(short = 'o', long = "to", value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct EffectiveArgs {
    /// The file; those of FILE.d are laid over it. Without one: the defaults.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    eviction: EvictionArgs,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

pub(super) fn config(args: &ConfigArgs) -> Result<Exit, Failure> {
    match &args.command {
        ConfigCommand::Check { file } => check(file),
        ConfigCommand::Effective(args) => effective(args),
        ConfigCommand::Import { from, to } => import(from, to.as_deref()),
    }
}

fn load(file: Option<&Path>, flags: &EvictionFlags) -> Result<Effective, Failure> {
    Effective::load(file, flags).map_err(|e| Failure::usage(&e))
}

fn check(file: &Path) -> Result<Exit, Failure> {
    let effective = load(Some(file), &EvictionFlags::default())?;
    warn(&effective.warnings);
    let kind = effective.format.map_or("", |format| format.name());
    let warnings = match effective.warnings.len() {
        0 => "no warnings".to_owned(),
        1 => "1 warning".to_owned(),
        n => format!("{n} warnings"),
    };
    print(&format!(
        "{}: good ({kind}, {} thresholds, {warnings})",
        file.display(),
        effective.thresholds.len()
    ));
    Ok(Exit::Good)
}

fn warn(warnings: &[Warning]) {
    for warning in warnings {
        // On stderr whatever the log level: they are part of the answer.
        eprintln!("warning: {warning}");
    }
}

fn effective(args: &EffectiveArgs) -> Result<Exit, Failure> {
    let effective = load(args.config.as_deref(), &args.eviction.flags())?;
    match args.output {
        Output::Text => {
            warn(&effective.warnings);
            let rows = effective
                .rows()
                .into_iter()
                .map(|row| vec![row.key, row.value, row.source]);
            print(&table(&["key", "value", "source"], rows));
        }
        Output::Json => {
            let warnings: Vec<_> = effective.warnings.iter().map(Warning::to_string).collect();
            let json = json!({
                "kind": effective.format.map(|format| format.name()),
                "settings": effective.rows(),
                "warnings": warnings,
            });
            print(&json.to_string());
        }
    }
    Ok(Exit::Good)
}

fn import(from: &Path, to: Option<&Path>) -> Result<Exit, Failure> {
    let effective = load(Some(from), &EvictionFlags::default())?;
    warn(&effective.warnings);
    let text = effective
        .to_own_file()
        .map_err(|e| Failure::usage(&format!("--from {}: {e}", from.display())))?;
    let Some(to) = to else {
        print(text.trim_end());
        return Ok(Exit::Good);
    };
    File::create_new(to)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| {
            Failure::usage(&format!(
                "--to {}: {e}; name a new file in a folder that can be written",
                to.display()
            ))
        })?;
    Ok(Exit::Good)
}
