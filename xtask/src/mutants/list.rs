//! `tests/mutants.toml`: the mistakes.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// The tests that can notice a mistake.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    Unit,
    Policy,
    Vectors,
}

impl By {
    pub(super) const ALL: [Self; 3] = [Self::Unit, Self::Policy, Self::Vectors];

    /// What `cargo test` is given.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Unit => &["--package", "eviction-core", "--lib"],
            Self::Policy => &["--package", "eviction-core", "--test", "policy"],
            Self::Vectors => &["--package", "eviction-tests", "--test", "vectors"],
        }
    }
}

impl fmt::Display for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unit => "unit",
            Self::Policy => "policy",
            Self::Vectors => "vectors",
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    pub(super) file: String,
    /// A line that stands in the file exactly once, without its indentation.
    pub(super) old: String,
    /// What it becomes; empty: nothing.
    pub(super) new: String,
    pub(super) caught_by: By,
    /// What is wrong then, in words.
    pub(super) mistake: String,
}

impl Mutant {
    pub(super) fn matches(&self, filter: &str) -> bool {
        [&self.file, &self.old, &self.mistake]
            .iter()
            .any(|text| text.contains(filter))
    }

    /// The file's text with the mistake in it.
    pub(super) fn applied(&self, text: &str) -> Result<String> {
        let hits = text
            .lines()
            .filter(|line| line.trim() == self.old.trim())
            .count();
        if hits != 1 {
            bail!(
                "{}: the line `{}` stands there {hits} times instead of once: mend tests/mutants.toml",
                self.file,
                self.old
            );
        }
        let lines = text
            .lines()
            .filter_map(|line| match line.trim() == self.old.trim() {
                true if self.new.is_empty() => None,
                true => Some(format!(
                    "{}{}\n",
                    &line[..line.len() - line.trim_start().len()],
                    self.new
                )),
                false => Some(format!("{line}\n")),
            });
        Ok(lines.collect())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutant: Vec<Mutant>,
}

pub(super) fn read(path: &Path) -> Result<Vec<Mutant>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let list: List = toml::from_str(&text)
        .with_context(|| format!("{} is no list of mutants", path.display()))?;
    Ok(list.mutant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(old: &str, new: &str) -> Mutant {
        Mutant {
            file: "rank.rs".into(),
            old: old.into(),
            new: new.into(),
            caught_by: By::Unit,
            mistake: "wrong order".into(),
        }
    }

    #[test]
    fn a_line_is_replaced_where_it_stands() {
        let text = "fn f() {\n    a < b\n}\n";
        assert_eq!(
            mutant("a < b", "a > b").applied(text).unwrap(),
            "fn f() {\n    a > b\n}\n"
        );
        assert_eq!(mutant("a < b", "").applied(text).unwrap(), "fn f() {\n}\n");
    }

    #[test]
    fn a_line_that_is_not_there_once_is_an_error_that_names_it() {
        for text in ["x\n", "a < b\na < b\n"] {
            let error = mutant("a < b", "a > b")
                .applied(text)
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("rank.rs") && error.contains("a < b"),
                "{error}"
            );
        }
    }
}
