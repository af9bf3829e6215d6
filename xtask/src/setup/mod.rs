//! `cargo xtask setup`: everything a fresh Debian machine lacks, as a list of steps that each know whether
//! they are done. Nothing global changes beyond apt packages and the toolchain's library source.

mod apt;
mod archive;
mod kernels;
mod linker;
mod toolchain;
mod versions;

use std::cell::OnceCell;
use std::fs::File;

use anyhow::{Context as _, Result};

use crate::clock::{Stopwatch, show};
use crate::console;
use crate::workspace::Workspace;

pub use kernels::{GUEST_KERNELS, GuestKernel, Kernel, KernelMissing};

/// What a step found.
enum Presence {
    There(String),
    Missing(String),
}

/// What the steps share. The archive of other suites is read at most once per run, and only when needed.
struct Context<'a> {
    workspace: &'a Workspace,
    archive: OnceCell<archive::Archive>,
}

impl Context<'_> {
    fn archive(&self) -> Result<&archive::Archive> {
        if let Some(known) = self.archive.get() {
            return Ok(known);
        }
        let read = archive::Archive::read(self.workspace)?;
        Ok(self.archive.get_or_init(|| read))
    }
}

type Look = Box<dyn Fn(&Context<'_>) -> Result<Presence>>;
type Act = Box<dyn Fn(&Context<'_>) -> Result<()>>;

/// One thing the machine needs: a name, is it there, do it, and what a person can do when that fails.
struct Step {
    name: String,
    look: Look,
    act: Act,
    fix: &'static str,
}

#[derive(Debug, thiserror::Error)]
#[error("setup stopped at: {step}\n  cause: {cause}\n  fix:   {fix}")]
struct StepFailed {
    step: String,
    cause: String,
    fix: &'static str,
}

/// How much of the set-up is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// To build and test on this machine.
    Build,
    /// Guest kernels too.
    Guests,
}

fn steps(scope: Scope) -> Vec<Step> {
    let mut steps = vec![
        apt::step(),
        toolchain::components(),
        toolchain::library_source(),
        linker::step(),
    ];
    if scope == Scope::Guests {
        steps.extend(GUEST_KERNELS.iter().map(kernels::step));
    }
    steps
}

/// Brings the machine up to date, as a person calls it; with `dry_run` only says what would be done.
pub fn run(workspace: &Workspace, dry_run: bool) -> Result<()> {
    let clock = Stopwatch::start();
    console::say(&format!("setup  (cache: {})", workspace.cache().display()));
    let _lock = if dry_run {
        None
    } else {
        Some(lock(workspace)?)
    };
    let context = Context {
        workspace,
        archive: OnceCell::new(),
    };
    for step in steps(Scope::Guests) {
        match (step.look)(&context).map_err(|error| failed(&step, &error))? {
            Presence::There(detail) => console::step(&step.name, "there", &detail),
            Presence::Missing(detail) if dry_run => console::step(&step.name, "missing", &detail),
            Presence::Missing(detail) => bring(&context, &step, &detail)?,
        }
    }
    let outcome = if dry_run {
        "looked, changed nothing,"
    } else {
        "complete"
    };
    console::say(&format!("setup  {outcome} in {}", show(clock.elapsed())));
    Ok(())
}

/// The same before something that needs it: silent when nothing is missing.
pub fn ensure(workspace: &Workspace, scope: Scope) -> Result<()> {
    let _lock = lock(workspace)?;
    let context = Context {
        workspace,
        archive: OnceCell::new(),
    };
    for step in steps(scope) {
        if let Presence::Missing(detail) =
            (step.look)(&context).map_err(|error| failed(&step, &error))?
        {
            bring(&context, &step, &detail)?;
        }
    }
    Ok(())
}

fn failed(step: &Step, error: &anyhow::Error) -> StepFailed {
    StepFailed {
        step: step.name.clone(),
        cause: format!("{error:#}"),
        fix: step.fix,
    }
}

/// Does a step that is `missing` something. The step's own word is not enough: looks again.
fn bring(context: &Context<'_>, step: &Step, missing: &str) -> Result<()> {
    console::step(&step.name, "missing", missing);
    let clock = Stopwatch::start();
    (step.act)(context).map_err(|error| failed(step, &error))?;
    match (step.look)(context).map_err(|error| failed(step, &error))? {
        Presence::There(detail) => console::step(
            &step.name,
            "done",
            &format!("{detail} ({})", show(clock.elapsed())),
        ),
        Presence::Missing(detail) => {
            return Err(
                failed(step, &anyhow::anyhow!("still missing afterwards: {detail}")).into(),
            );
        }
    }
    Ok(())
}

/// Two set-ups at once would tread on each other's downloads: the second one waits.
fn lock(workspace: &Workspace) -> Result<File> {
    let path = workspace.cache().join("setup.lock");
    std::fs::create_dir_all(workspace.cache()).with_context(|| {
        format!(
            "cannot make the cache folder {}: set EVICTION_CACHE to a writable one",
            workspace.cache().display()
        )
    })?;
    let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
    if file.try_lock().is_err() {
        console::progress("another `cargo xtask setup` is at work: waiting for it");
        file.lock()
            .with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(workspace: &Workspace) -> Context<'_> {
        Context {
            workspace,
            archive: OnceCell::new(),
        }
    }

    fn step(look: Look, act: Act) -> Step {
        Step {
            name: "a thing".into(),
            look,
            act,
            fix: "buy one",
        }
    }

    #[test]
    fn a_failed_step_names_step_cause_and_fix() {
        let workspace = Workspace::find().unwrap();
        let broken = step(
            Box::new(|_| Ok(Presence::Missing("all".into()))),
            Box::new(|_| anyhow::bail!("no network")),
        );
        let text = bring(&context(&workspace), &broken, "all")
            .unwrap_err()
            .to_string();
        assert_eq!(
            text,
            "setup stopped at: a thing\n  cause: no network\n  fix:   buy one"
        );
    }

    #[test]
    fn a_step_that_changed_nothing_is_a_failure() {
        let workspace = Workspace::find().unwrap();
        let idle = step(
            Box::new(|_| Ok(Presence::Missing("all".into()))),
            Box::new(|_| Ok(())),
        );
        let text = bring(&context(&workspace), &idle, "all")
            .unwrap_err()
            .to_string();
        assert!(text.contains("still missing afterwards"), "{text}");
    }

    #[test]
    fn a_build_needs_no_guest_kernel() {
        let names = |scope| {
            steps(scope)
                .into_iter()
                .map(|step| step.name)
                .collect::<Vec<_>>()
        };
        assert!(
            !names(Scope::Build)
                .iter()
                .any(|name| name.starts_with("kernel"))
        );
        assert_eq!(
            names(Scope::Guests)
                .iter()
                .filter(|name| name.starts_with("kernel"))
                .count(),
            4
        );
    }
}
