//! `cargo xtask mutants`: proves that the tests of the policy can fail. A checked-in list of deliberate one-line
//! mistakes is applied one at a time, in a copy of the tree, and the tests must notice each.

mod list;
mod tree;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::clock::{Stopwatch, show};
use crate::console;
use crate::process::{ProcessError, cargo_within, run_logged};
use crate::workspace::Workspace;
use list::{By, Mutant};
use tree::Tree;

/// A mistake may make a loop endless. Far above what the slowest of the three needs to build and run.
const PATIENCE_SECONDS: u32 = 600;

#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Caught(By),
    Survived,
    /// The mistake is none of the tests' business: the compiler refuses it, and it proves nothing.
    DoesNotBuild,
}

/// Applies the mistakes whose file, line or description contains `filter`.
pub fn run(workspace: &Workspace, filter: &str) -> Result<ExitCode> {
    let clock = Stopwatch::start();
    let mutants = list::read(&workspace.root().join("tests/mutants.toml"))?;
    let chosen: Vec<&Mutant> = mutants
        .iter()
        .filter(|mutant| mutant.matches(filter))
        .collect();
    if chosen.is_empty() {
        bail!("no mutant matches `{filter}`: see tests/mutants.toml");
    }
    let tree = Tree::copy(workspace)?;
    console::say(&format!(
        "mutants  {} of {}, in {}",
        chosen.len(),
        mutants.len(),
        tree.root().display()
    ));
    for by in By::ALL {
        if !passes(workspace, &tree, by).context("the tests do not pass without any mistake")? {
            bail!("`{by}` fails without any mistake: repair that first");
        }
    }
    let mut survivors = 0;
    for mutant in chosen {
        survivors += usize::from(!judge(workspace, &tree, mutant)?);
    }
    let caught = mutants
        .iter()
        .filter(|mutant| mutant.matches(filter))
        .count()
        - survivors;
    console::say(&format!(
        "mutants: {caught} caught, {survivors} survived, in {}",
        show(clock.elapsed())
    ));
    Ok(if survivors == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Shows the fate of one mutant; whether it is the one it should have.
fn judge(workspace: &Workspace, tree: &Tree, mutant: &Mutant) -> Result<bool> {
    let clock = Stopwatch::start();
    let original = tree.apply(mutant)?;
    let fate = fate(workspace, tree, mutant);
    tree.restore(&mutant.file, &original)?;
    let (state, by) = match fate? {
        Fate::Caught(by) if by == mutant.caught_by => ("caught", by.to_string()),
        Fate::Caught(by) => ("caught", format!("{by}, not {}", mutant.caught_by)),
        Fate::Survived => ("SURVIVED", "nothing".to_owned()),
        Fate::DoesNotBuild => ("NO BUILD", "the compiler".to_owned()),
    };
    console::say(&format!(
        "  {state:<9} by {by:<22} {:<9} {}",
        show(clock.elapsed()),
        mutant.mistake
    ));
    if state != "caught" {
        console::say(&format!(
            "    {}: {} -> {}",
            mutant.file, mutant.old, mutant.new
        ));
    }
    Ok(state == "caught")
}

/// Asks the tests that should notice first, then the others.
fn fate(workspace: &Workspace, tree: &Tree, mutant: &Mutant) -> Result<Fate> {
    let others = By::ALL.into_iter().filter(|by| *by != mutant.caught_by);
    for by in std::iter::once(mutant.caught_by).chain(others) {
        match passes(workspace, tree, by) {
            Ok(true) => {}
            Ok(false) => return Ok(Fate::Caught(by)),
            Err(error) if error.is::<DoesNotBuild>() => return Ok(Fate::DoesNotBuild),
            Err(error) => return Err(error),
        }
    }
    Ok(Fate::Survived)
}

#[derive(Debug, thiserror::Error)]
#[error("the copy does not build\n{0}")]
struct DoesNotBuild(String);

fn passes(workspace: &Workspace, tree: &Tree, by: By) -> Result<bool> {
    let mut test = cargo_within(PATIENCE_SECONDS);
    test.current_dir(tree.root())
        .env("CARGO_TARGET_DIR", tree.target())
        .arg("test")
        .args(by.arguments());
    let log = workspace.log(&format!("mutant-{by}"));
    match run_logged(&mut test, &log) {
        Ok(()) => Ok(true),
        Err(ProcessError::Failed { tail, .. }) => {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains("could not compile") {
                Err(DoesNotBuild(tail).into())
            } else {
                Ok(false)
            }
        }
        Err(other) => Err(other.into()),
    }
}
