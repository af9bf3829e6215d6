//! Counts of a suite, in the form that people and machines read.

use std::fmt;

/// A test that could not be done here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Skip {
    pub(super) test: String,
    pub(super) reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skips: Vec<Skip>,
}

impl Tally {
    pub(super) fn ran(&self) -> usize {
        self.passed + self.failed
    }

    pub(super) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skips.extend(other.skips);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed,
            self.skips.len()
        )
    }
}

/// Reads a line that is nothing but the counts; the skips are counted, their reasons stood on lines of their own.
pub(super) fn parse(line: &str) -> Option<(usize, usize, usize)> {
    let mut parts = line.trim().split(", ");
    let mut number = |word: &str| parts.next()?.strip_suffix(word)?.trim_end().parse().ok();
    let counts = (number("passed")?, number("failed")?, number("skipped")?);
    parts.next().is_none().then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        let tally = Tally {
            passed: 9058,
            failed: 1,
            skips: vec![Skip {
                test: "a".into(),
                reason: "b".into(),
            }],
        };
        assert_eq!(parse(&tally.to_string()), Some((9058, 1, 1)));
    }

    #[test]
    fn other_lines_are_no_counts() {
        for line in [
            "",
            "3 passed",
            "ranking: 3 passed, 0 failed, 0 skipped",
            "3 passed, 0 failed, 0 skipped, 1 more",
            "x passed, 0 failed, 0 skipped",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
