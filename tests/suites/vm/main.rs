//! Suite `vm`: the harness itself, then each guest kernel; one line per kernel.

mod harness;
mod machine;

use std::process::ExitCode;

use eviction_tests::suite::{self, Case};
use xtask::vm::MACHINES;

fn main() -> ExitCode {
    let mut cases = harness::cases();
    cases.extend(MACHINES.map(|(series, cgroup)| {
        Case::new(format!("kernel {series}, cgroup {cgroup}"), move || {
            machine::run(series, cgroup)
        })
    }));
    suite::main(cases)
}
