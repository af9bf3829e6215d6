//! No file names the host of a package registry: where packages come from is the machine's business, and a
//! mirror must do as well.

use anyhow::Result;

use super::{Findings, files, read};
use crate::workspace::Workspace;

/// In parts, so that this file does not name them either.
const HOSTS: [&[&str]; 9] = [
    &["crates", "io"],
    &["static", "rust-lang", "org"],
    &["deb", "debian", "org"],
    &["security", "debian", "org"],
    &["pypi", "org"],
    &["registry", "npmjs", "org"],
    &["proxy", "golang", "org"],
    &["repo", "maven", "apache", "org"],
    &["files", "pythonhosted", "org"],
];
/// Cargo writes its registry's name there itself.
const EXEMPT: [&str; 1] = ["Cargo.lock"];

pub(super) fn run(workspace: &Workspace) -> Result<Findings> {
    let mut findings = Findings::new();
    for path in files(workspace)?
        .iter()
        .filter(|path| !EXEMPT.contains(&path.as_str()))
    {
        findings.extend(named_in(path, &read(workspace, path)?));
    }
    Ok(findings)
}

fn named_in(path: &str, text: &str) -> Findings {
    let hosts = HOSTS.map(|parts| parts.join("."));
    let lines = text.lines().zip(1..);
    lines
        .filter_map(|(line, number)| {
            hosts
                .iter()
                .find(|host| line.contains(host.as_str()))
                .map(|host| format!("{path}:{number}: names the registry host {host}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_host_is_found_with_its_line() {
        let host = HOSTS[2].join(".");
        let findings = named_in("a.sh", &format!("set -e\ncurl http://{host}/debian\n"));
        assert_eq!(
            findings,
            [format!("a.sh:2: names the registry host {host}")]
        );
        assert!(named_in("a.sh", "use the mirror of the machine").is_empty());
    }
}
