//! `cargo xtask check`: what can be said about the sources without running them. Each check has a name and
//! yields findings; no finding is a pass.

mod host_names;
mod layer_table;
mod layers;
mod lints;
mod paths;
mod purity;
mod sizes;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};

use crate::clock::{Stopwatch, show};
use crate::console;
use crate::process::capture;
use crate::workspace::Workspace;

/// What is wrong, and where: `path:line: text`, or the end of a tool's output.
type Findings = Vec<String>;

pub struct Check {
    pub name: &'static str,
    run: fn(&Workspace) -> Result<Findings>,
}

impl Check {
    /// The findings; a check that cannot run has one that says so.
    #[must_use]
    pub fn findings(&self, workspace: &Workspace) -> Findings {
        (self.run)(workspace)
            .unwrap_or_else(|error| vec![format!("the check itself failed: {error:#}")])
    }
}

/// The quick ones first.
#[must_use]
pub fn all() -> Vec<Check> {
    vec![
        Check {
            name: "layers",
            run: layers::run,
        },
        Check {
            name: "pure core",
            run: purity::run,
        },
        Check {
            name: "README length",
            run: sizes::readme,
        },
        Check {
            name: "file length",
            run: sizes::sources,
        },
        Check {
            name: "host names",
            run: host_names::run,
        },
        Check {
            name: "rustfmt",
            run: lints::rustfmt,
        },
        Check {
            name: "clippy",
            run: lints::clippy,
        },
        Check {
            name: "clippy, eBPF target",
            run: lints::clippy_ebpf,
        },
    ]
}

/// Runs one check, shows its line and its findings, and says whether it passed.
pub fn show_one(workspace: &Workspace, check: &Check) -> bool {
    let clock = Stopwatch::start();
    let findings = check.findings(workspace);
    console::step(
        check.name,
        if findings.is_empty() {
            "passed"
        } else {
            "FAILED"
        },
        &show(clock.elapsed()),
    );
    for finding in &findings {
        for line in finding.lines() {
            console::say(&format!("    {}", line.trim_end()));
        }
    }
    findings.is_empty()
}

/// The command as a person calls it.
pub fn run(workspace: &Workspace) -> ExitCode {
    console::say("check");
    let failed = all()
        .iter()
        .filter(|check| !show_one(workspace, check))
        .count();
    console::say(&format!(
        "check: {} passed, {failed} failed, 0 skipped",
        all().len() - failed
    ));
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The text files of the tree as git sees it, with new ones that are not ignored.
fn files(workspace: &Workspace) -> Result<Vec<String>> {
    let listed = capture(Command::new("git").arg("-C").arg(workspace.root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))
    .context("git must be able to list the files of the tree")?;
    let mut files: Vec<String> = listed
        .lines()
        .filter(|path| workspace.root().join(path).is_file())
        .map(str::to_owned)
        .collect();
    files.sort();
    files.dedup();
    if files.is_empty() {
        bail!("git lists no file in {}", workspace.root().display());
    }
    Ok(files)
}

fn read(workspace: &Workspace, path: &str) -> Result<String> {
    let bytes = std::fs::read(workspace.root().join(path))
        .with_context(|| format!("cannot read {path}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
