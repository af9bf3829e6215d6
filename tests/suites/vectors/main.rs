//! The policy core against recordings of the kubelet's own code: every family, every case.
//!
//! `EVICTION_VECTORS=DIR` replaces the folder of recordings. Arguments select families by a part of
//! their name; those left out are not counted. The last line counts the cases.

mod check;
mod families;
mod files;
mod shape;

use std::path::PathBuf;
use std::process::ExitCode;

use check::CaseOutcome;

/// Cases of a family shown in full before the rest is only counted.
const SHOWN_FAILURES: usize = 3;

/// Cases in the project's own folder (its README has the table), so that a lost part is noticed.
const OWN_CASES: usize = 9_058;

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
}

fn main() -> ExitCode {
    let replaced = std::env::var_os("EVICTION_VECTORS").map(PathBuf::from);
    let is_own = replaced.is_none();
    let folder = replaced
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/vectors/dev")));
    let filter: Vec<_> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let is_selected =
        |name: &str| filter.is_empty() || filter.iter().any(|part| name.contains(part.as_str()));

    let mut tally = Tally::default();
    let mut problems = Vec::new();
    let families = match files::read(&folder) {
        Ok(families) => families,
        Err(error) => {
            println!("FAILED {error}");
            println!("0 passed, 1 failed, 0 skipped");
            return ExitCode::FAILURE;
        }
    };
    for name in families
        .keys()
        .filter(|name| families::check_of(name).is_none())
    {
        problems.push(format!("{name}: a family this suite has no check for"));
    }
    let total: usize = families.values().map(|family| family.cases.len()).sum();
    if is_own && total != OWN_CASES {
        problems.push(format!(
            "{total} cases in {}, {OWN_CASES} expected",
            folder.display()
        ));
    }
    for (name, check) in families::ALL.iter().filter(|(name, _)| is_selected(name)) {
        let Some(family) = families.get(*name) else {
            problems.push(format!("{name}: no such family in {}", folder.display()));
            continue;
        };
        if family.cases.is_empty() || family.cases.len() != family.announced {
            let (have, announced) = (family.cases.len(), family.announced);
            problems.push(format!(
                "{name}: {have} cases, {announced} announced, more than none expected"
            ));
        }
        let outcomes: Vec<_> = family
            .cases
            .iter()
            .map(|case| check::run(*check, case))
            .collect();
        report(name, &outcomes, &mut tally);
    }
    if tally.passed + tally.failed == 0 {
        problems.push(format!("no family is selected by {filter:?}"));
    }
    for problem in &problems {
        println!("FAILED {problem}");
    }
    let failed = tally.failed + problems.len();
    // There is nothing a case could lack on any machine.
    println!("{} passed, {failed} failed, 0 skipped", tally.passed);
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn report(name: &str, outcomes: &[CaseOutcome<'_>], tally: &mut Tally) {
    let failures: Vec<_> = outcomes
        .iter()
        .filter(|outcome| outcome.mismatch.is_some())
        .collect();
    println!(
        "{name}: {} passed, {} failed",
        outcomes.len() - failures.len(),
        failures.len()
    );
    for failure in failures.iter().take(SHOWN_FAILURES) {
        if let Some(mismatch) = &failure.mismatch {
            println!("  {}: {mismatch}", failure.id);
        }
    }
    if failures.len() > SHOWN_FAILURES {
        println!("  and {} more", failures.len() - SHOWN_FAILURES);
    }
    tally.passed += outcomes.len() - failures.len();
    tally.failed += failures.len();
}
