//! Suite `cluster`: the built program on a real Kubernetes node of this machine, under the rights that its manifest asks for.

mod account;
mod annotations;
mod api;
mod bench;
mod chart;
mod conditions;
mod crash;
mod crowd;
mod daemon_set;
mod disk;
mod guest;
mod halted;
mod killed;
mod kubelet;
mod least_rights;
mod limits;
mod mapping;
mod memory;
mod node;
mod others;
mod pods;
mod reclaim;
mod refusal;
mod rights;
mod rights_matrix;
mod runtime;
mod simulated;
mod soft;
mod upgrade;
mod wrong_input;

use std::process::ExitCode;

use eviction_tests::suite::{self, Case};

fn main() -> ExitCode {
    if let Some(bench) = bench::asked() {
        return match bench::run(&bench) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        };
    }
    let mut cases: Vec<Case> = Vec::new();
    cases.extend(wrong_input::cases());
    cases.extend(memory::cases());
    cases.extend(crash::cases());
    cases.extend(killed::cases());
    cases.extend(others::cases());
    cases.extend(soft::cases());
    cases.extend(crowd::cases());
    cases.extend(disk::cases());
    cases.extend(limits::cases());
    cases.extend(simulated::cases());
    cases.extend(kubelet::cases());
    cases.extend(conditions::cases());
    cases.extend(refusal::cases());
    cases.extend(rights::cases());
    cases.extend(least_rights::cases());
    cases.extend(annotations::cases());
    cases.extend(rights_matrix::cases());
    cases.extend(daemon_set::cases());
    cases.extend(upgrade::cases());
    // The last ones: no other story's pods are to find a second node, and the very last need another node altogether.
    cases.extend(guest::cases());
    cases.extend(runtime::cases());
    cases.extend(reclaim::cases());
    let ended = suite::main(cases);
    match node::take_down() {
        Ok(()) => ended,
        Err(error) => {
            eprintln!("error: the cluster cannot be taken down: {error:#}");
            ExitCode::FAILURE
        }
    }
}
