//! Suite `unit`: `cargo test` of every package, one line per test binary.

use anyhow::Result;

use super::libtest::{Binary, Reader};
use super::tally::Tally;
use crate::console;
use crate::process::{ProcessError, cargo, run_streaming};
use crate::workspace::Workspace;

/// Whole packages, and of the test harness only its library: its test binaries are suites of their own.
const PARTS: [&[&str]; 2] = [
    &[
        "--package",
        "eviction-core",
        "--package",
        "eviction-ebpf",
        "--package",
        "eviction-user",
        "--package",
        "xtask",
    ],
    &["--package", "eviction-tests", "--lib", "--bins"],
];

pub(super) fn run(workspace: &Workspace, filter: &[String]) -> Result<Tally> {
    let mut tally = Tally::default();
    for (number, part) in PARTS.iter().enumerate() {
        let mut test = cargo();
        // `--show-output`: a test that misses what it needs says so on its standard output.
        test.current_dir(workspace.root())
            .args(["test", "--no-fail-fast"])
            .args(*part)
            .args(["--", "--show-output"])
            .args(filter);
        let mut reader = Reader::default();
        let mut part_tally = Tally::default();
        let ended = run_streaming(
            &mut test,
            &workspace.log(&format!("suite-unit-{number}")),
            &mut |line| {
                let Some(binary) = reader.line(line) else {
                    return false;
                };
                part_tally.add(binary.tally.clone());
                show(binary)
            },
        );
        match ended {
            // The tests said it themselves.
            Err(ProcessError::Failed { .. }) if part_tally.failed > 0 => {}
            Err(error) => {
                console::say(&format!("    {error}"));
                part_tally.failed += 1;
            }
            Ok(()) => {}
        }
        tally.add(part_tally);
    }
    Ok(tally)
}

/// Says how a binary did, unless it holds no test; returns whether it did.
fn show(binary: &Binary) -> bool {
    if binary.tally == Tally::default() {
        return false;
    }
    let state = if binary.tally.failed == 0 {
        "passed"
    } else {
        "FAILED"
    };
    console::step(&binary.name, state, &binary.tally.to_string());
    for skip in &binary.tally.skips {
        console::say(&format!("    {} skipped: {}", skip.test, skip.reason));
    }
    for (test, output) in &binary.failures {
        console::say(&format!("    {test}"));
        for line in output.lines().filter(|line| !line.trim().is_empty()) {
            console::say(&format!("      {line}"));
        }
    }
    true
}
