//! `eviction explain`: what is measured now, who would go, and why the others not. Changes nothing.

mod node;
mod report;
#[cfg(test)]
mod tests;
mod text;

use super::host_args::{Host, HostArgs};
use super::table::print;
use super::{Exit, Failure, place};
use crate::host::{GuardsAsked, Scan, Scanner};
use crate::model::{ObservedPod, Snapshot};
use crate::policy::Engine;
use crate::ports::{Growth, Inventory};
use crate::telemetry::record::Output;
use clap::Args;
use report::Report;
use std::time::Duration;

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    host: HostArgs,
    /// How it is printed.
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
}

pub(super) fn explain(args: &ExplainArgs) -> Result<Exit, Failure> {
    let host = args.host.open()?;
    let cluster = host.start_cluster(None)?;
    if let Some(cluster) = &cluster {
        cluster
            .wait_until_listed(LISTING)
            .map_err(|e| Failure::runtime(&e))?;
    }
    let scan = match host.scan_targets(cluster.as_ref()) {
        Some(mut targets) => Scan::Done(Scanner::once(&targets())),
        None => Scan::None,
    };
    let mut inventory = host.inventory(scan, None, GuardsAsked::ALL, cluster.as_ref())?;
    inventory.look().map_err(|e| Failure::runtime(&e))?;
    // The kernel's counters run only while `eviction run` does.
    let snapshot = inventory.snapshot(&Growth::default());
    let engine = Engine::new(host.engine_config());
    let mut report = Report::new(&engine, &snapshot, &host.thresholds());
    for row in &mut report.signals {
        row.place = place::of(row.signal, &host);
    }
    report.missing = missing(&host, &snapshot);
    match args.output {
        Output::Text => print(&text::page(&report)),
        Output::Json => {
            print(&serde_json::to_string(&report).map_err(|e| Failure::runtime(&e))?);
        }
    }
    Ok(Exit::Good)
}

/// How long the API server may take to tell of this node's pods.
const LISTING: Duration = Duration::from_secs(10);

/// What could not be found out here, and what would help.
fn missing(host: &Host, snapshot: &Snapshot) -> Vec<String> {
    let mut missing = Vec::new();
    let unread: Vec<_> = snapshot
        .pods
        .iter()
        .filter(|pod| pod.stats.is_none())
        .map(|pod| pod.pod.full_name())
        .collect();
    if !unread.is_empty() {
        missing.push(format!(
            "the memory use of {} cannot be read (no memory controller there, or no permission); what has no figures ranks first, as in the kubelet",
            unread.join(", ")
        ));
    }
    if !host.devices().is_empty() {
        let uncounted: Vec<_> = snapshot
            .pods
            .iter()
            .filter(|pod| !is_scanned(pod))
            .map(|pod| pod.pod.full_name())
            .collect();
        if !uncounted.is_empty() {
            let fix = match host.cluster {
                Some(_) => "none of their directories can be read: see --nodefs and --pod-logs",
                None => "--workload NAME:dir=PATH scans a directory instead",
            };
            missing.push(format!(
                "the disk and inode use of {} is unknown: the kernel's counters run only while `eviction run` does; {fix}",
                uncounted.join(", ")
            ));
        }
    }
    missing
}

fn is_scanned(pod: &ObservedPod) -> bool {
    let disk = pod.stats.iter().flat_map(|stats| &stats.disk);
    disk.into_iter().any(|part| part.base.is_some())
}
