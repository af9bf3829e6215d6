//! `eviction doctor`: really attaches every hook for a moment, asks for every privilege, and says for
//! each what works, what does not, and the one fix.

mod checks;
mod print;
mod signals;
mod without_ebpf;

use super::fs_args::FsArgs;
use super::source::BpfArgs;
use super::{Exit, Failure};
use crate::bpf::{Facts, Family};
use crate::telemetry::record::Output;
use checks::Check;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// How the findings are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    #[command(flatten)]
    paths: FsArgs,
    #[command(flatten)]
    bpf: BpfArgs,
}

/// All findings.
#[derive(Debug, Serialize)]
struct Findings {
    kernel: String,
    /// What each family's events will come from; `none` means the timer.
    #[serde(flatten)]
    sources: BTreeMap<&'static str, &'static str>,
    checks: Vec<Check>,
    facts: Facts,
}

pub(super) fn doctor(args: &DoctorArgs) -> Result<Exit, Failure> {
    let findings = checks::examine(&args.bpf.options(), &args.paths);
    match args.output {
        Output::Text => print::text(&findings),
        Output::Json => {
            let json = serde_json::to_string(&findings).map_err(|e| Failure::runtime(&e))?;
            println!("{json}");
        }
    }
    Ok(findings.exit())
}

impl Findings {
    fn exit(&self) -> Exit {
        if self
            .checks
            .iter()
            .any(|check| check.state == checks::State::NoPrivilege)
        {
            Exit::Privilege
        } else if self.sources.get(Family::Memory.name()) == Some(&"none") {
            Exit::FallbackOnly
        } else {
            Exit::Good
        }
    }
}
