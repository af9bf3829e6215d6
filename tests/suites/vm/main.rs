//! Suite `vm`: the harness itself, then each guest kernel; one line per kernel.

mod harness;
mod machine;

use std::process::ExitCode;

use eviction_tests::suite::{self, Case};
use xtask::vm::CgroupVersion;

/// Kernel series and cgroup version. Debian builds 6.12 and later without cgroup v1 memory, so v1 is shown on 6.1.
const MACHINES: [(&str, CgroupVersion); 5] = [
    ("5.10", CgroupVersion::V2),
    ("6.1", CgroupVersion::V2),
    ("6.12", CgroupVersion::V2),
    ("7.3", CgroupVersion::V2),
    ("6.1", CgroupVersion::V1),
];

fn main() -> ExitCode {
    let mut cases = harness::cases();
    cases.extend(MACHINES.map(|(series, cgroup)| {
        Case::new(format!("kernel {series}, cgroup {cgroup}"), move || {
            machine::run(series, cgroup)
        })
    }));
    suite::main(cases)
}
