//! `eviction doctor`: really attaches every hook for a moment, asks for every privilege, and says for
//! each what works, what does not, and the one fix.

mod checks;
mod kubelet;
mod print;
mod runtime;
mod signals;
mod without_ebpf;

use super::eviction_args::EvictionArgs;
use super::fs_args::FsArgs;
use super::kube_args::Platform;
use super::kubelet_args::{Found, KubeletArgs};
use super::runtime_args::RuntimeArgs;
use super::source::BpfArgs;
use super::{Exit, Failure};
use crate::bpf::{Facts, Family};
use crate::config::{Effective, EvictionFlags, PodsLayout};
use crate::telemetry::record::Output;
use checks::Check;
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// How the findings are printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// With kubernetes: whether the kubelet's thresholds keep out of the way of ours, which --config and
    /// --eviction-hard say, and where the container runtime keeps images and writable layers.
    #[arg(long, value_enum)]
    platform: Option<Platform>,
    /// As of `run`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    eviction: EvictionArgs,
    #[command(flatten)]
    kubelet: KubeletArgs,
    #[command(flatten)]
    paths: FsArgs,
    #[command(flatten)]
    runtime: RuntimeArgs,
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
    let beside = beside_the_kubelet(args)?;
    let mut findings = checks::examine(&args.bpf.options(), &args.paths);
    if let Some((ours, found)) = &beside {
        findings.checks.extend(kubelet::beside(ours, found));
        let layout = PodsLayout::of(ours, &found.settings);
        let runtime = args.runtime.runtime(&layout, None);
        let mut checks = runtime::examine(&runtime, &layout, &args.paths);
        checks.push(runtime::reclaim(&args.runtime, &layout));
        findings.checks.extend(checks);
    }
    match args.output {
        Output::Text => print::text(&findings),
        Output::Json => {
            let json = serde_json::to_string(&findings).map_err(|e| Failure::runtime(&e))?;
            println!("{json}");
        }
    }
    Ok(findings.exit())
}

/// Our settings and the kubelet's, where they are asked for.
fn beside_the_kubelet(args: &DoctorArgs) -> Result<Option<(Effective, Found)>, Failure> {
    let flags = args.eviction.flags();
    if !matches!(args.platform, Some(Platform::Kubernetes)) {
        let given = [
            ("--config", args.config.is_some()),
            ("--kubelet-config", args.kubelet.is_given()),
            ("--container-runtime-endpoint", args.runtime.is_given()),
            ("--eviction-*", flags != EvictionFlags::default()),
        ];
        return match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((flag, _)) => Err(Failure::usage(&format!(
                "{flag} has no effect without --platform kubernetes: leave it out, or give that"
            ))),
            None => Ok(None),
        };
    }
    let ours = Effective::load(args.config.as_deref(), &flags).map_err(|e| Failure::usage(&e))?;
    let found = args.kubelet.find(None, None)?;
    Ok(Some((ours, found)))
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
