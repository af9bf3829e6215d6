//! What a person can take in at once: the README on a few screens, a source file with one idea.

use anyhow::Result;

use super::{Findings, files, read};
use crate::workspace::Workspace;

const README_LINES: usize = 150;
const SOURCE_LINES: usize = 500;

pub(super) fn readme(workspace: &Workspace) -> Result<Findings> {
    Ok(
        too_long("README.md", &read(workspace, "README.md")?, README_LINES)
            .into_iter()
            .collect(),
    )
}

pub(super) fn sources(workspace: &Workspace) -> Result<Findings> {
    let mut findings = Findings::new();
    for path in files(workspace)?
        .iter()
        .filter(|path| path.ends_with(".rs"))
    {
        findings.extend(too_long(path, &read(workspace, path)?, SOURCE_LINES));
    }
    Ok(findings)
}

fn too_long(path: &str, text: &str, most: usize) -> Option<String> {
    let lines = text.lines().count();
    (lines > most).then(|| format!("{path}: {lines} lines, at most {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_too_many_is_found() {
        assert_eq!(too_long("a.rs", &"x\n".repeat(150), 150), None);
        assert_eq!(
            too_long("a.rs", &"x\n".repeat(151), 150).as_deref(),
            Some("a.rs: 151 lines, at most 150")
        );
    }
}
