//! Suite `host`: the built program on this machine, natively.

mod bench;
mod command_line;
mod config;
mod disk;
mod disk_counts;
mod explain;
mod hung;
mod loading;
mod metrics;
mod mounts;
mod nobody;
mod observations;
mod observe;
mod program;
mod replay;
mod soft;
mod stories;

use std::process::ExitCode;

use eviction_tests::suite::{self, Case};

fn main() -> ExitCode {
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(program::cases());
    cases.extend(command_line::cases());
    cases.extend(bench::cases());
    cases.extend(config::cases());
    cases.extend(explain::cases());
    cases.extend(loading::cases());
    cases.extend(observe::cases());
    cases.extend(observations::cases());
    cases.extend(disk_counts::cases());
    cases.extend(metrics::cases());
    cases.extend(stories::cases());
    cases.extend(soft::cases());
    cases.extend(disk::cases());
    cases.extend(mounts::cases());
    cases.extend(hung::cases());
    cases.extend(replay::cases());
    suite::main(cases)
}
