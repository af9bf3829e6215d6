//! Suite `vm`: the harness itself, then each guest kernel; one line per kernel.

mod harness;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use eviction_tests::suite::{self, Case, Outcome};
use xtask::setup::Kernel;
use xtask::vm::{self, CgroupVersion, Guest, Line};
use xtask::workspace::Workspace;

/// Kernel series and cgroup version. Debian builds 6.12 and later without cgroup v1 memory, so v1 is shown on 6.1.
const MACHINES: [(&str, CgroupVersion); 5] = [
    ("5.10", CgroupVersion::V2),
    ("6.1", CgroupVersion::V2),
    ("6.12", CgroupVersion::V2),
    ("7.3", CgroupVersion::V2),
    ("6.1", CgroupVersion::V1),
];

/// A case on a guest that lacks something would send its reader the wrong way: look at the guest first.
const GUEST_IS_WHOLE: &str = "
for path in /sys/kernel/btf/vmlinux /sys/kernel/tracing/events /sys/fs/bpf /sys/kernel/security/lockdown; do
    [ -e $path ] || { echo \"$path is not there\"; exit 1; }
done
eviction --version";

/// All of one guest, under emulation on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> ExitCode {
    let mut cases = harness::cases();
    cases.extend(MACHINES.map(|(series, cgroup)| {
        Case::new(format!("kernel {series}, cgroup {cgroup}"), move || {
            machine(series, cgroup)
        })
    }));
    suite::main(cases)
}

fn machine(series: &str, cgroup: CgroupVersion) -> Result<Outcome> {
    let workspace = Workspace::find()?;
    let command = ["sh", "-c", GUEST_IS_WHOLE].map(str::to_owned).to_vec();
    let mut guest = Guest::new(Kernel::find(&workspace, series)?, cgroup, command);
    guest.files = vec![(suite::programs()?.join("eviction"), "/bin/eviction".into())];
    guest.timeout = PATIENCE;
    let finished = vm::run(&workspace, &guest, &mut |line| {
        if let Line::Notice(text) = line {
            println!("    {text}");
        }
    })?;
    if finished.code != 0 {
        bail!(
            "the guest ended with {}\n{}",
            finished.code,
            finished.output
        );
    }
    Ok(Outcome::Noted(format!("{} s", finished.elapsed.as_secs())))
}
