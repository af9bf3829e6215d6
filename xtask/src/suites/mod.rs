//! `cargo xtask test`: the suites, what each counted, and one total at the end.

mod cases;
mod libtest;
mod skips;
mod tally;
mod unit;

use std::process::ExitCode;
use std::thread;

use anyhow::Result;

use crate::check;
use crate::clock::{Stopwatch, show};
use crate::console;
use crate::setup::{self, Scope};
use crate::workspace::Workspace;
use skips::Allowed;
use tally::Tally;

type Run = fn(&Workspace, &[String]) -> Result<Tally>;

pub struct Suite {
    pub name: &'static str,
    pub about: &'static str,
    run: Run,
    /// It waits more than it works, and so does not mind the next one at the same time.
    is_idle: bool,
}

impl Suite {
    const fn new(name: &'static str, about: &'static str, run: Run) -> Self {
        Self {
            name,
            about,
            run,
            is_idle: false,
        }
    }
}

/// In the order they run: what fails soonest first.
pub const SUITES: [Suite; 7] = [
    Suite::new("check", "formatting, lints, layers, sizes", checks),
    Suite::new(
        "unit",
        "unit, property and integration tests of every package",
        unit::run,
    ),
    Suite::new(
        "vectors",
        "the policy against what the real kubelet's code decided",
        cases::vectors,
    ),
    Suite::new("host", "the built program on this machine", cases::host),
    Suite::new(
        "chart",
        "the Helm chart, rendered by the real helm",
        cases::chart,
    ),
    Suite {
        is_idle: true,
        ..Suite::new(
            "cluster",
            "the built program beside a real kubelet",
            cases::cluster,
        )
    },
    Suite::new("vm", "the built program in four guest kernels", cases::vm),
];

/// Runs the suites named, or all of them; `filter` goes on to their tests.
pub fn run(workspace: &Workspace, named: &[String], filter: &[String]) -> Result<ExitCode> {
    let clock = Stopwatch::start();
    setup::ensure(workspace, Scope::Build)?;
    let allowed = Allowed::read(&workspace.root().join("tests/allowed-skips.toml"))?;
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    let mut total = Tally::default();
    let chosen = |suite: &&Suite| named.is_empty() || named.iter().any(|name| name == suite.name);
    let mut suites = SUITES.iter().filter(chosen);
    let run = |suite: &Suite| run_one(workspace, suite, filter, in_ci.then_some(&allowed));
    while let Some(suite) = suites.next() {
        let beside = suite.is_idle.then(|| suites.next()).flatten();
        match beside {
            Some(beside) => both(suite, beside, &run)
                .into_iter()
                .for_each(|tally| total.add(tally)),
            None => total.add(run(suite)),
        }
    }
    console::say(&format!("\nall suites in {}", show(clock.elapsed())));
    console::say(&total.to_string());
    Ok(if total.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// At the same time, each line with the suite's name before it.
fn both(one: &Suite, other: &Suite, run: &(impl Fn(&Suite) -> Tally + Sync)) -> [Tally; 2] {
    thread::scope(|scope| {
        let running = [one, other].map(|suite| {
            scope.spawn(move || {
                console::label(suite.name);
                run(suite)
            })
        });
        running.map(|suite| {
            let ended = suite.join();
            ended.unwrap_or_else(|_| Tally {
                failed: 1,
                ..Tally::default()
            })
        })
    })
}

/// A suite that cannot run, or ran nothing, has failed. `strict` holds the skips that are allowed, if only those are.
fn run_one(
    workspace: &Workspace,
    suite: &Suite,
    filter: &[String],
    strict: Option<&Allowed>,
) -> Tally {
    let clock = Stopwatch::start();
    console::say(&format!("\n{}  {}", suite.name, suite.about));
    let mut tally = (suite.run)(workspace, filter).unwrap_or_else(|error| {
        console::say(&format!("  the suite could not run: {error:#}"));
        Tally {
            failed: 1,
            ..Tally::default()
        }
    });
    for complaint in complaints(suite.name, &tally, strict) {
        console::say(&format!("  FAILED: {complaint}"));
        tally.failed += 1;
    }
    console::say(&format!("{}: {tally}", suite.name));
    console::say(&format!("  in {}", show(clock.elapsed())));
    tally
}

fn complaints(suite: &str, tally: &Tally, strict: Option<&Allowed>) -> Vec<String> {
    let mut complaints = Vec::new();
    if tally.ran() == 0 {
        complaints.push("not one test ran".to_owned());
    }
    for skip in strict
        .map(|allowed| allowed.unexpected(suite, &tally.skips))
        .unwrap_or_default()
    {
        complaints.push(format!(
            "{}: skipped: {}, which tests/allowed-skips.toml does not allow",
            skip.test, skip.reason
        ));
    }
    complaints
}

fn checks(workspace: &Workspace, _filter: &[String]) -> Result<Tally> {
    let (passed, failed): (Vec<bool>, Vec<bool>) = check::all()
        .iter()
        .map(|one| check::show_one(workspace, one))
        .partition(|passed| *passed);
    Ok(Tally {
        passed: passed.len(),
        failed: failed.len(),
        skips: Vec::new(),
    })
}

/// One line per suite.
pub fn list() {
    for suite in &SUITES {
        console::say(&format!("{:<10}{}", suite.name, suite.about));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tally::Skip;

    #[test]
    fn a_suite_that_ran_nothing_is_a_failure() {
        assert_eq!(
            complaints("host", &Tally::default(), None),
            ["not one test ran"]
        );
    }

    #[test]
    fn two_suites_at_the_same_time_both_count() {
        let meeting = std::sync::Barrier::new(2);
        let tallies = both(&SUITES[0], &SUITES[1], &|suite: &Suite| {
            // Each waits until the other one is there.
            meeting.wait();
            assert_ne!(suite.name, SUITES[1].name, "this one panics");
            Tally {
                passed: 3,
                ..Tally::default()
            }
        });
        assert_eq!(
            tallies.map(|tally| (tally.passed, tally.failed)),
            [(3, 0), (0, 1)]
        );
    }

    #[test]
    fn in_ci_a_skip_that_is_not_allowed_is_a_failure() {
        let tally = Tally {
            passed: 1,
            failed: 0,
            skips: vec![Skip {
                test: "a".into(),
                reason: "no BPF".into(),
            }],
        };
        assert!(complaints("host", &tally, None).is_empty());
        let strict = Allowed::default();
        assert_eq!(
            complaints("host", &tally, Some(&strict)),
            ["a: skipped: no BPF, which tests/allowed-skips.toml does not allow"]
        );
    }
}
