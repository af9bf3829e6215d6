//! Reads what `cargo test -- --show-output` prints: results per test binary, ignored tests, and tests that
//! passed but said `skipped: reason` because the machine lacks what they need.

use std::collections::BTreeMap;

use super::tally::{Skip, Tally};

/// Results of one test binary.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Binary {
    pub(super) name: String,
    pub(super) tally: Tally,
    /// Name and output of each failed test.
    pub(super) failures: Vec<(String, String)>,
}

#[derive(Debug, Default)]
pub(super) struct Reader {
    binaries: Vec<Binary>,
    outputs: BTreeMap<String, String>,
    failed: Vec<String>,
    section: Option<String>,
}

impl Reader {
    /// Takes a line; returns the binary whose results it completed.
    pub(super) fn line(&mut self, line: &str) -> Option<&Binary> {
        if let Some(name) = binary_name(line) {
            self.binaries.push(Binary {
                name,
                ..Binary::default()
            });
            self.outputs.clear();
            self.failed.clear();
            self.section = None;
            return None;
        }
        if let Some(counts) = line.strip_prefix("test result: ") {
            return self.complete(counts);
        }
        if let Some(test) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.section = Some(test.to_owned());
            return None;
        }
        if matches!(line, "failures:" | "successes:") {
            self.section = None;
            return None;
        }
        if let Some(test) = &self.section {
            let output = self.outputs.entry(test.clone()).or_default();
            output.push_str(line);
            output.push('\n');
        } else if let Some((test, result)) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... "))
        {
            self.test(test, result);
        }
        None
    }

    fn test(&mut self, test: &str, result: &str) {
        let Some(binary) = self.binaries.last_mut() else {
            return;
        };
        if let Some(reason) = result.strip_prefix("ignored") {
            let reason = reason.trim_start_matches(", ").trim();
            let reason = if reason.is_empty() {
                "ignored without a reason"
            } else {
                reason
            };
            binary.tally.skips.push(Skip {
                test: test.to_owned(),
                reason: reason.to_owned(),
            });
        } else if result.starts_with("FAILED") {
            self.failed.push(test.to_owned());
        }
    }

    fn complete(&mut self, counts: &str) -> Option<&Binary> {
        let binary = self.binaries.last_mut()?;
        binary.tally.passed = count(counts, " passed");
        binary.tally.failed = count(counts, " failed");
        for test in self.failed.drain(..) {
            let output = self.outputs.remove(&test).unwrap_or_default();
            binary.failures.push((test, output));
        }
        for (test, output) in std::mem::take(&mut self.outputs) {
            if let Some(reason) = output
                .lines()
                .find_map(|line| line.trim().strip_prefix("skipped: "))
            {
                binary.tally.passed = binary.tally.passed.saturating_sub(1);
                binary.tally.skips.push(Skip {
                    test,
                    reason: reason.to_owned(),
                });
            }
        }
        self.section = None;
        Some(binary)
    }
}

/// `Running unittests src/lib.rs (target/debug/deps/xtask-0123)`, `Doc-tests xtask`
fn binary_name(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(package) = line.strip_prefix("Doc-tests ") {
        return Some(format!("{} (doc)", package.trim()));
    }
    let (_, path) = line.strip_prefix("Running ")?.rsplit_once('(')?;
    let file = path.trim_end_matches(')').rsplit('/').next()?;
    Some(
        file.rsplit_once('-')
            .map_or(file, |(name, _)| name)
            .to_owned(),
    )
}

fn count(counts: &str, word: &str) -> usize {
    let number = counts
        .split(['.', ';'])
        .find_map(|part| part.trim().strip_suffix(word.trim())?.trim().parse().ok());
    number.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
     Running unittests src/lib.rs (target/debug/deps/eviction_core-8aca)

running 4 tests
test engine::waits ... ok
test host::attaches ... ok
test slow::million ... ignored, takes an hour
test rank::order ... FAILED

successes:

---- host::attaches stdout ----
skipped: no permission for BPF

successes:
    engine::waits
    host::attaches

failures:

---- rank::order stdout ----
thread 'rank::order' panicked at src/rank.rs:3:5:
assertion failed: a < b

failures:
    rank::order

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s
   Doc-tests eviction_core
running 0 tests
test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.0s
";

    #[test]
    fn results_skips_and_outputs_are_told_apart() {
        let mut reader = Reader::default();
        let mut seen = Vec::new();
        for line in OUTPUT.lines() {
            if let Some(binary) = reader.line(line) {
                seen.push(format!("{}: {}", binary.name, binary.tally));
            }
        }
        assert_eq!(
            seen,
            [
                "eviction_core: 1 passed, 1 failed, 2 skipped",
                "eviction_core (doc): 0 passed, 0 failed, 0 skipped"
            ]
        );
        let core = &reader.binaries[0];
        let reasons: Vec<&str> = core
            .tally
            .skips
            .iter()
            .map(|skip| skip.reason.as_str())
            .collect();
        assert_eq!(reasons, ["takes an hour", "no permission for BPF"]);
        assert_eq!(core.failures[0].0, "rank::order");
        assert!(core.failures[0].1.contains("assertion failed: a < b"));
    }
}
