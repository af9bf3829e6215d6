//! A file system that does not answer must not keep the loop from deciding about memory, nor the start from ending.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::load::now_ns;
use eviction_tests::scenario::{Evictor, Fuse, Programs, TestTree, Workload, wait_until};
use eviction_tests::suite::{self, Case, Outcome};

const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);
/// What the program gives a file system to answer.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "while --nodefs hangs memory is decided on as ever, and the disk is told once to be unread",
            || hangs(Hung::Later),
        ),
        Case::new(
            "a dead file system mounted over --nodefs stops nothing either",
            || hangs(Hung::MountedOver),
        ),
        Case::new(
            "the start says which path does not answer, and ends",
            start_ends,
        ),
    ]
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hung {
    /// It answered at the start.
    Later,
    MountedOver,
}

struct Story {
    tree: TestTree,
    folder: tempfile::TempDir,
    programs: Programs,
}

impl Story {
    fn new(name: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("disk"))?;
        Ok(Self {
            programs: Programs::in_folder(&suite::programs()?),
            tree: TestTree::create(name, 128 * MIB)?,
            folder,
        })
    }

    fn place(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn arguments(&self) -> Vec<String> {
        vec![
            "--platform=host".to_owned(),
            "--looks".to_owned(),
            format!("--root={}", self.tree.root().display()),
            format!("--nodefs={}", self.place().display()),
            "--eviction-hard=allocatableMemory.available<32Mi,nodefs.available<1Mi".to_owned(),
        ]
    }
}

fn since(began_ns: u64) -> Duration {
    Duration::from_nanos(now_ns() - began_ns)
}

fn hangs(how: Hung) -> Result<Outcome> {
    let story = Story::new("hung")?;
    let early = (how == Hung::Later)
        .then(|| Fuse::mount(&story.place(), true))
        .transpose()?;
    let mut evictor = Evictor::start(&story.programs, &story.arguments())?;
    evictor.wait_for("started", LONG)?;
    let fuse = match early {
        Some(fuse) => {
            fuse.hang();
            fuse
        }
        None => Fuse::mount(&story.place(), false)?,
    };
    let hung = now_ns();
    // More looks than one, so that one would have been caught.
    std::thread::sleep(Duration::from_secs(2));
    let began = now_ns();
    let folder = story.folder.path();
    let hog = ["hog", "104857600", "0"];
    let mut hog = Workload::start(&story.programs, &story.tree, folder, "hog", &hog, 0)?;
    let decision = evictor.wait_for("decision", Duration::from_secs(5))?;
    let gone = wait_until(LONG, || (!hog.is_alive()).then_some(()));
    gone.context("the hog still runs")?;
    let took = since(began);
    if decision.text("victim") != "hog" || since(hung) > PATIENCE {
        bail!("after {:?}: {:?}", since(hung), evictor.seen);
    }
    let unread = evictor.wait_for("look-failed", LONG)?;
    let told_after = since(hung);
    let reason = unread.text("reason").to_owned();
    if !reason.starts_with(&format!("{} has not answered", story.place().display()))
        || told_after < PATIENCE - Duration::from_secs(2)
    {
        bail!("after {told_after:?}: {unread:?}");
    }
    evictor.drain();
    let before = evictor.seen.len();
    fuse.go_on();
    let read = wait_until(LONG, || {
        evictor.drain();
        let mut looks = evictor.seen[before..].iter();
        looks
            .any(|record| record.0["left"]["nodefs.available"].is_i64())
            .then_some(())
    });
    read.context("it answers again, and nobody reads it")?;
    let (code, stderr) = evictor.terminate(LONG)?;
    evictor.drain();
    let failed = evictor.of_kind("look-failed").count();
    let moves = evictor.of_kind("moved").count();
    if code != Some(0) || failed != 1 || moves != usize::from(how == Hung::MountedOver) {
        bail!("{code:?} {stderr}: {:?}", evictor.seen);
    }
    Ok(Outcome::Noted(format!(
        "hog gone after {} ms, told after {} s",
        took.as_millis(),
        told_after.as_secs()
    )))
}

fn start_ends() -> Result<Outcome> {
    let story = Story::new("hung-start")?;
    let _fuse = Fuse::mount(&story.place(), false)?;
    let began = now_ns();
    let mut run = Command::new(&story.programs.eviction);
    let ended = run.arg("run").args(story.arguments()).output()?;
    let (took, said) = (since(began), String::from_utf8_lossy(&ended.stderr));
    let place = story.place().display().to_string();
    if ended.status.code() != Some(2)
        || !said.contains(&format!("--nodefs: {place} has not answered"))
        || took > 2 * PATIENCE
    {
        bail!("{:?} after {took:?}: {said}", ended.status);
    }
    Ok(Outcome::Noted(format!("after {} s", took.as_secs())))
}
