//! The policy core has no I/O, clock, thread or logging: neither by its dependencies nor by the standard library.

use anyhow::{Context, Result};

use super::{Findings, files, paths, read};
use crate::workspace::Workspace;

const CORE: &str = "eviction-user/core";

/// Crates of plain data and arithmetic. A new one belongs here only if it can do no I/O.
const DEPENDENCIES: [&str; 3] = ["num-bigint", "serde", "thiserror"];

/// Modules of std that reach outside.
const OUTSIDE: [&str; 8] = ["env", "fs", "io", "net", "os", "process", "thread", "time"];
/// `Duration` is a number.
const HARMLESS: [&str; 1] = ["time::Duration"];

pub(super) fn run(workspace: &Workspace) -> Result<Findings> {
    let mut findings = dependencies(&read(workspace, &format!("{CORE}/Cargo.toml"))?)?;
    for path in files(workspace)?
        .iter()
        .filter(|path| path.starts_with(&format!("{CORE}/src/")) && path.ends_with(".rs"))
    {
        findings.extend(reaches_outside(path, &read(workspace, path)?));
    }
    Ok(findings)
}

fn dependencies(manifest: &str) -> Result<Findings> {
    let manifest: toml::Table = manifest
        .parse()
        .context("eviction-core's manifest is no TOML")?;
    let listed = manifest
        .get("dependencies")
        .and_then(toml::Value::as_table)
        .into_iter()
        .flat_map(|table| table.keys());
    Ok(listed
        .filter(|name| !DEPENDENCIES.contains(&name.as_str()))
        .map(|name| {
            format!(
                "{CORE}/Cargo.toml: eviction-core depends on `{name}`, which is not among {}",
                DEPENDENCIES.join(", ")
            )
        })
        .collect())
}

fn reaches_outside(path: &str, source: &str) -> Findings {
    let references = match paths::references(source, &[], &["std"]) {
        Ok(references) => references,
        Err(error) => return vec![format!("{path}: {error}")],
    };
    references
        .into_iter()
        .filter(|one| {
            one.root == "std"
                && one
                    .path
                    .first()
                    .is_some_and(|module| OUTSIDE.contains(&module.as_str()))
        })
        .filter(|one| !HARMLESS.contains(&one.path.join("::").as_str()))
        .map(|one| {
            format!(
                "{path}:{}: the core uses `std::{}`: hand it in as an argument",
                one.line,
                one.path.join("::")
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_that_can_do_io_is_found() {
        let manifest = "[dependencies]\nthiserror.workspace = true\ntokio = \"1\"\n[dev-dependencies]\nproptest = \"1\"\n";
        let findings = dependencies(manifest).unwrap();
        assert_eq!(findings.len(), 1);
        assert!(findings[0].contains("`tokio`"), "{findings:?}");
    }

    #[test]
    fn files_and_clocks_of_std_are_found() {
        let source = "use std::{fmt, fs::File};\nfn f() { std::time::SystemTime::now(); }\nuse std::time::Duration;";
        let findings = reaches_outside("m.rs", source);
        assert_eq!(
            findings,
            [
                "m.rs:1: the core uses `std::fs::File`: hand it in as an argument",
                "m.rs:2: the core uses `std::time::SystemTime::now`: hand it in as an argument",
            ]
        );
    }
}
