//! In CI a skip must be expected: a need that silently went missing would otherwise look like a pass.

use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::tally::Skip;

/// `tests/allowed-skips.toml`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Allowed {
    #[serde(default, rename = "skip")]
    skips: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    suite: String,
    /// How the skip's reason begins.
    reason: String,
    /// Why this is no loss, for whoever reads the list.
    #[serde(rename = "because")]
    _because: String,
}

impl Allowed {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text)
            .with_context(|| format!("{} is not a list of allowed skips", path.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// Those of `skips` that no entry allows.
    pub(super) fn unexpected<'a>(&self, suite: &str, skips: &'a [Skip]) -> Vec<&'a Skip> {
        let allows = |skip: &Skip| {
            self.skips
                .iter()
                .any(|entry| entry.suite == suite && skip.reason.starts_with(&entry.reason))
        };
        skips.iter().filter(|skip| !allows(skip)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(reason: &str) -> Skip {
        Skip {
            test: "t".into(),
            reason: reason.into(),
        }
    }

    #[test]
    fn a_skip_that_is_not_listed_is_unexpected() {
        let allowed = Allowed::parse("[[skip]]\nsuite = \"host\"\nreason = \"no kprobes\"\nbecause = \"the vm suite has them\"\n").unwrap();
        let skips = [skip("no kprobes in this kernel"), skip("no root")];
        assert_eq!(allowed.unexpected("host", &skips), [&skips[1]]);
        assert_eq!(allowed.unexpected("unit", &skips).len(), 2);
    }

    #[test]
    fn an_entry_needs_its_because() {
        assert!(Allowed::parse("[[skip]]\nsuite = \"host\"\nreason = \"x\"\n").is_err());
    }

    #[test]
    fn the_checked_in_list_can_be_read() {
        Allowed::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/allowed-skips.toml"))
            .unwrap();
    }
}
