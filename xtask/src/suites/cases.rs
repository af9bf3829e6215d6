//! Suites that are one test binary with its own runner (`eviction_tests::suite`): its lines are shown as they
//! come, its last line has the counts.

use anyhow::Result;

use super::tally::{self, Skip, Tally};
use crate::build;
use crate::console;
use crate::process::{ProcessError, cargo, run_streaming};
use crate::setup::{self, Scope};
use crate::workspace::Workspace;

pub(super) fn vectors(workspace: &Workspace, filter: &[String]) -> Result<Tally> {
    run(workspace, "vectors", filter, false)
}

pub(super) fn host(workspace: &Workspace, filter: &[String]) -> Result<Tally> {
    run(workspace, "host", filter, true)
}

pub(super) fn chart(workspace: &Workspace, filter: &[String]) -> Result<Tally> {
    run(workspace, "chart", filter, true)
}

pub(super) fn cluster(workspace: &Workspace, filter: &[String]) -> Result<Tally> {
    setup::ensure(workspace, Scope::Guests)?;
    run(workspace, "cluster", filter, true)
}

pub(super) fn vm(workspace: &Workspace, filter: &[String]) -> Result<Tally> {
    setup::ensure(workspace, Scope::Guests)?;
    run(workspace, "vm", filter, true)
}

fn run(
    workspace: &Workspace,
    suite: &str,
    filter: &[String],
    with_programs: bool,
) -> Result<Tally> {
    let mut test = cargo();
    test.current_dir(workspace.root())
        .args([
            "test",
            "--quiet",
            "--package",
            "eviction-tests",
            "--test",
            suite,
            "--",
        ])
        .args(filter);
    if with_programs {
        console::progress("building the static programs");
        test.env("EVICTION_PROGRAMS", build::all_programs(workspace)?);
    }
    let mut reader = Reader::default();
    let ended = run_streaming(
        &mut test,
        &workspace.log(&format!("suite-{suite}")),
        &mut |line| {
            let shown = reader.line(line);
            if shown {
                console::say(line);
            }
            shown
        },
    );
    reader.close(ended)
}

/// Collects the skips and the closing counts.
#[derive(Debug, Default)]
struct Reader {
    skips: Vec<Skip>,
    counts: Option<(usize, usize, usize)>,
}

impl Reader {
    /// Whether the line is to be shown: all but the counts, which the caller closes with, and what cargo adds after them.
    fn line(&mut self, line: &str) -> bool {
        if let Some(counts) = tally::parse(line) {
            self.counts = Some(counts);
            return false;
        }
        if self.counts.is_some() {
            return false;
        }
        if let Some((test, reason)) = line.split_once("skipped: ") {
            self.skips.push(Skip {
                test: test.trim().to_owned(),
                reason: reason.trim().to_owned(),
            });
        }
        true
    }

    fn close(self, ended: Result<(), ProcessError>) -> Result<Tally> {
        let Some((passed, failed, skipped)) = self.counts else {
            return Err(ended.err().map_or_else(
                || anyhow::anyhow!("the suite ended without its closing line"),
                Into::into,
            ));
        };
        let mut tally = Tally {
            passed,
            failed,
            skips: self.skips,
        };
        // Counted but never explained: not to be mistaken for an allowed one.
        while tally.skips.len() < skipped {
            tally.skips.push(Skip {
                test: "unknown".into(),
                reason: "skipped without a reason".into(),
            });
        }
        if failed == 0 && ended.is_err() {
            console::say("    the suite counted no failure but ended as one");
            tally.failed = 1;
        }
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str], ended: Result<(), ProcessError>) -> Result<Tally> {
        let mut reader = Reader::default();
        for line in lines {
            reader.line(line);
        }
        reader.close(ended)
    }

    #[test]
    fn counts_and_reasons_are_collected() {
        let tally = read(
            &[
                "  hog dies   passed",
                "  freezer   skipped: no v1",
                "1 passed, 0 failed, 1 skipped",
            ],
            Ok(()),
        )
        .unwrap();
        assert_eq!(tally.to_string(), "1 passed, 0 failed, 1 skipped");
        assert_eq!(
            tally.skips[0],
            Skip {
                test: "freezer".into(),
                reason: "no v1".into()
            }
        );
    }

    #[test]
    fn a_suite_without_closing_line_has_failed() {
        assert!(read(&["  hog dies   passed"], Ok(())).is_err());
    }

    #[test]
    fn a_skip_without_reason_does_not_get_lost() {
        let tally = read(&["1 passed, 0 failed, 1 skipped"], Ok(())).unwrap();
        assert_eq!(tally.skips[0].reason, "skipped without a reason");
    }
}
