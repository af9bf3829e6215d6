//! Suite `vm`: the harness itself, then each guest kernel; one line per kernel.

mod disk;
mod harness;
mod late;
mod machine;
mod story;
mod written;

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
    cases.extend(["5.10", "6.1", "6.12", "7.3"].map(|series| {
        let name = format!("kernel {series}, bytes and inodes of six file systems");
        Case::new(name, move || disk::run(series)).patient()
    }));
    // Without and with types of modules.
    cases.extend(["5.10", "7.3"].map(|series| {
        let name = format!("kernel {series}, a file system whose module is loaded later");
        Case::new(name, move || late::STORY.run(series))
    }));
    let name = "kernel 6.12, a file system without hooks of its own";
    cases.push(Case::new(name, || written::STORY.run("6.12")));
    suite::main(cases)
}
