//! Runs cases one after another, or two at a time where they allow it, one line each, and closes with the counts that `cargo xtask test` reads.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::case::{Case, Outcome};

const NAME: usize = 58;
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub failed: usize,
    pub skipped: usize,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

impl Counts {
    pub fn add(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Passed | Outcome::Noted(_) => self.passed += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::Skipped(_) => self.skipped += 1,
        }
    }
}

/// Entry of a suite's `main`: arguments are parts of the names to run, `--list` lists them.
#[must_use]
pub fn main(cases: Vec<Case>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (flags, wanted): (Vec<_>, Vec<_>) = arguments
        .iter()
        .partition(|argument| argument.starts_with("--"));
    if let Some(unknown) = flags.iter().find(|flag| **flag != "--list") {
        eprintln!("error: unknown flag {unknown}: give parts of case names, or --list");
        return ExitCode::from(2);
    }
    let chosen: Vec<Case> = cases
        .into_iter()
        .filter(|one| wanted.is_empty() || wanted.iter().any(|part| one.name().contains(*part)))
        .collect();
    if !flags.is_empty() {
        for case in &chosen {
            say(case.name());
        }
        return ExitCode::SUCCESS;
    }
    if chosen.is_empty() {
        eprintln!("error: no case matches {wanted:?}: see --list");
        return ExitCode::from(2);
    }
    let counts = run(chosen, &mut say);
    say(&counts.to_string());
    if counts.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Carries out all of them; `say` gets the lines.
pub fn run(cases: Vec<Case>, say: &mut dyn FnMut(&str)) -> Counts {
    let mut counts = Counts::default();
    let mut cases = cases.into_iter().peekable();
    while let Some(case) = cases.next() {
        let beside = cases.next_if(|next| case.is_patient() && next.is_patient());
        let ended = thread::scope(|scope| {
            let beside = beside.map(|beside| scope.spawn(|| carry_out(beside)));
            let first = carry_out(case);
            let second = beside.map(|beside| beside.join().expect("a case's panic is its outcome"));
            std::iter::once(first).chain(second)
        });
        for (name, outcome) in ended {
            counts.add(&outcome);
            for line in lines(&name, &outcome) {
                say(&line);
            }
        }
    }
    counts
}

fn carry_out(case: Case) -> (String, Outcome) {
    let name = case.name().to_owned();
    let outcome = with_signs_of_life(&name, || case.carry_out());
    (name, outcome)
}

fn lines(name: &str, outcome: &Outcome) -> Vec<String> {
    match outcome {
        Outcome::Passed => vec![format!("  {name:<NAME$} passed")],
        Outcome::Noted(note) => vec![format!("  {name:<NAME$} passed  {note}")],
        Outcome::Skipped(reason) => vec![format!("  {name:<NAME$} skipped: {reason}")],
        Outcome::Failed(text) => std::iter::once(format!("  {name:<NAME$} FAILED"))
            .chain(text.lines().map(|line| format!("    {line}")))
            .collect(),
    }
}

fn with_signs_of_life(name: &str, work: impl FnOnce() -> Outcome) -> Outcome {
    let (done, waiting) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut seconds = 0;
            while waiting.recv_timeout(SIGN_OF_LIFE) == Err(RecvTimeoutError::Timeout) {
                seconds += SIGN_OF_LIFE.as_secs();
                say(&format!("  {name:<NAME$} at work for {seconds} s"));
            }
        });
        let outcome = work();
        drop(done);
        outcome
    })
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A reader that went away is no reason to stop in the middle of a case.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    #[test]
    fn two_patient_cases_run_at_the_same_time_and_are_told_in_their_order() {
        // Each waits until the other one is there.
        let meeting = Arc::new(Barrier::new(2));
        let meets = |name: &'static str| {
            let meeting = Arc::clone(&meeting);
            let run = std::panic::AssertUnwindSafe(move || meeting.wait());
            Case::new(name, move || {
                let run = run;
                run.0();
            })
            .patient()
        };
        let cases = vec![
            Case::new("alone", || ()),
            meets("one"),
            meets("two"),
            Case::new("left over", || ()).patient(),
        ];
        let mut said = Vec::new();
        let counts = run(cases, &mut |line| {
            said.push(line.split_whitespace().collect::<Vec<_>>().join(" "))
        });
        assert_eq!(counts.passed, 4);
        let expected = ["alone", "one", "two", "left over"].map(|name| format!("{name} passed"));
        assert_eq!(said, expected);
    }

    #[test]
    fn every_outcome_is_counted_and_has_its_line() {
        let cases = vec![
            Case::new("one", || Outcome::Passed),
            Case::new("two", || Outcome::Noted("4 ms".into())),
            Case::new("three", || Outcome::Skipped("no BPF".into())),
            Case::new("four", || Outcome::Failed("wrong victim\nweb".into())),
        ];
        let mut said = Vec::new();
        let counts = run(cases, &mut |line| {
            said.push(line.split_whitespace().collect::<Vec<_>>().join(" "))
        });
        assert_eq!(counts.to_string(), "2 passed, 1 failed, 1 skipped");
        assert_eq!(
            said,
            [
                "one passed",
                "two passed 4 ms",
                "three skipped: no BPF",
                "four FAILED",
                "wrong victim",
                "web"
            ]
        );
    }
}
