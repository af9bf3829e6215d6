//! A file system that is mounted over a watched path while the program runs, and unmounted again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::oracle::{Fs, make_image};
use eviction_tests::scenario::{Disk, Evictor, Programs, Record, TestTree, Workload, wait_until};
use eviction_tests::suite::{self, Case, Outcome};

const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "a file system mounted over --nodefs is followed by hooks, and after it the old one (case 20)",
            mounted_and_unmounted,
        ),
        Case::new(
            "file systems of three kinds in turn in the same place, each with its own hook",
            three_kinds,
        ),
        Case::new(
            "what is known not to be seen does not make its hook a silent one",
            preallocated,
        ),
    ]
}

/// A plain directory, watched before anything is mounted there.
struct Story {
    tree: TestTree,
    folder: tempfile::TempDir,
    programs: Programs,
}

impl Story {
    fn new(name: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let story = Self {
            programs: Programs::in_folder(&suite::programs()?),
            tree: TestTree::create(name, 256 * MIB)?,
            folder,
        };
        fs::create_dir(story.place())?;
        Ok(story)
    }

    /// Where [`Disk`] mounts.
    fn place(&self) -> PathBuf {
        self.folder.path().join("disk")
    }

    fn workload(&self, name: &str, arguments: &[&str]) -> Result<Workload> {
        let folder: &Path = self.folder.path();
        let load = Workload::start(&self.programs, &self.tree, folder, name, arguments, 0)?;
        Ok(load)
    }

    /// With lines that the file system of the machine is far from.
    fn evictor(&self, hard: &str, more: &[&str]) -> Result<Evictor> {
        let mut arguments = vec![
            "--platform=host".to_owned(),
            "--looks".to_owned(),
            format!("--root={}", self.tree.root().display()),
            format!("--nodefs={}", self.place().display()),
            format!("--eviction-hard={hard}"),
        ];
        arguments.extend(more.iter().map(|argument| (*argument).to_owned()));
        let mut evictor = Evictor::start(&self.programs, &arguments)?;
        evictor.wait_for("started", LONG)?;
        Ok(evictor)
    }
}

/// By the tracepoint of dirty folios alone a preallocation is not seen: the timer finds it, and nobody says that the hook is dead.
fn preallocated() -> Result<Outcome> {
    const TAKEN: u64 = 40 * MIB;
    let story = Story::new("preallocated")?;
    let disk = Disk::make(story.folder.path(), 4_096)?;
    let rungs = "--rungs=raw_tp/writeback_dirty_folio";
    let mut evictor = story.evictor("nodefs.available<1Mi", &[rungs])?;
    let started = evictor.wait_for("started", LONG)?;
    if started.0["sources"]["ext4-bytes"] != "raw_tp/writeback_dirty_folio" {
        bail!("{started:?}");
    }
    let before = wait_until(LONG, || left(&mut evictor, "nodefs.available"));
    let before = before.context("no figure")?;
    let file = fs::File::create(disk.path().join("file"))?;
    let none = nix::fcntl::FallocateFlags::empty();
    nix::fcntl::fallocate(&file, none, 0, TAKEN.cast_signed())?;
    for _ in 0..2 {
        // A second look, for what the first one may have found out.
        let seen = evictor.of_kind("look").count();
        let less = |left: &u64| before - left >= TAKEN;
        let found = wait_until(LONG, || {
            let left = left(&mut evictor, "nodefs.available").filter(less);
            left.filter(|_| evictor.of_kind("look").count() > seen)
        });
        found.context("the timer does not find it")?;
    }
    if evictor.of_kind("hook-silent").count() > 0 {
        bail!("{:?}", evictor.seen);
    }
    Ok(Outcome::Passed)
}

/// The n-th record of its kind, from 0.
fn nth(evictor: &mut Evictor, kind: &str, n: usize) -> Result<Record> {
    let found = wait_until(LONG, || {
        evictor.drain();
        evictor.of_kind(kind).nth(n).cloned()
    });
    found.with_context(|| format!("no {kind} record {n} in {:?}", evictor.seen))
}

/// What is left to a signal's line by the last look.
fn left(evictor: &mut Evictor, signal: &str) -> Option<u64> {
    evictor.drain();
    let last = evictor.of_kind("look").last()?;
    last.0["left"][signal].as_u64()
}

fn source<'a>(moved: &'a Record, signal: &str) -> &'a str {
    moved.0["signals"][signal]["source"].as_str().unwrap_or("")
}

/// Which one it is differs from kernel to kernel. The timer's names have no such stroke.
fn is_hook(source: &str) -> bool {
    source.contains('/')
}

fn mounted_and_unmounted() -> Result<Outcome> {
    const LINE: u64 = 1_000;
    let story = Story::new("mounted")?;
    let hard = format!("nodefs.inodesFree<{LINE},nodefs.available<1Mi");
    let mut evictor = story.evictor(&hard, &[])?;
    let before = wait_until(LONG, || left(&mut evictor, "nodefs.inodesFree"));
    let before = before.context("no figure of the old file system")?;
    let mut calm = story.workload("calm", &["hold", "4096"])?;

    let disk = Disk::make(story.folder.path(), 4_096)?;
    let moved = nth(&mut evictor, "moved", 0)?;
    let hooks = ["nodefs.available", "nodefs.inodesFree"].map(|signal| source(&moved, signal));
    if moved.0["to"]["at"].as_str() != disk.path().to_str()
        || moved.0["to"]["kind"] != "ext4"
        || moved.text("path") != story.place().display().to_string()
        || !hooks.into_iter().all(is_hook)
    {
        bail!("{moved:?}");
    }
    let (all, _) = disk.inodes()?;
    let small = wait_until(LONG, || {
        left(&mut evictor, "nodefs.inodesFree").filter(|left| *left < all)
    });
    small.context("no figure of the new file system")?;

    let files = disk.path().join("hog");
    fs::create_dir(&files)?;
    let files = files.display().to_string();
    let mut hog = story.workload("hog", &["inodes", &files, "20000", "0"])?;
    let decision = evictor.wait_for("decision", LONG)?;
    let gone = wait_until(LONG, || (!hog.is_alive()).then_some(()));
    gone.context("the hog still runs")?;
    let place = decision.text("place");
    if decision.text("victim") != "hog"
        || !is_hook(decision.text("source"))
        || !place.ends_with(&disk.path().display().to_string())
        || !calm.is_alive()
    {
        bail!("{decision:?}");
    }
    let source_of_event = decision.text("source").to_owned();

    drop(disk);
    let back = nth(&mut evictor, "moved", 1)?;
    let figures = wait_until(LONG, || {
        left(&mut evictor, "nodefs.inodesFree").filter(|left| *left > before / 2)
    });
    let (code, stderr) = evictor.terminate(LONG)?;
    evictor.drain();
    let failed = evictor.of_kind("look-failed").count();
    let lost = evictor.of_kind("events-lost").count() + evictor.of_kind("counts-forgotten").count();
    if back.0["to"] != moved.0["from"]
        || figures.is_none()
        || evictor.of_kind("moved").count() != 2
        || evictor.of_kind("decision").count() != 1
        || failed + lost > 0
        || code != Some(0)
    {
        bail!("{back:?}, {stderr}: {:?}", evictor.seen);
    }
    Ok(Outcome::Noted(format!(
        "by {source_of_event}; told of {} and {}",
        hooks[0], hooks[1]
    )))
}

fn three_kinds() -> Result<Outcome> {
    let story = Story::new("kinds")?;
    let mut evictor = story.evictor("nodefs.available<1Mi", &["--dry-run"])?;
    let mut told = Vec::new();
    for (number, fs) in [Fs::Btrfs, Fs::Xfs, Fs::Ext4].into_iter().enumerate() {
        let image = story.folder.path().join(number.to_string());
        make_image(fs, &image)?;
        let kind = format!("{fs:?}").to_lowercase();
        let place = story.place();
        let mounted = Mounted::at(&kind, &image, &place)?;
        let moved = nth(&mut evictor, "moved", 2 * number)?;
        let hook = source(&moved, "nodefs.available");
        if moved.0["to"]["kind"] != kind.as_str() || !is_hook(hook) {
            bail!("{kind}: {moved:?}");
        }
        told.push(hook.to_owned());
        drop(mounted);
        nth(&mut evictor, "moved", 2 * number + 1)?;
    }
    let (code, stderr) = evictor.terminate(LONG)?;
    if code != Some(0) {
        bail!("{code:?}, {stderr}");
    }
    Ok(Outcome::Noted(told.join(", ")))
}

/// A loop mount, undone when it is dropped.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn at(kind: &str, image: &Path, place: &'a Path) -> Result<Self> {
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", kind, "-o", "loop"]).arg(image).arg(place);
        if !mount.status()?.success() {
            bail!("{mount:?} failed");
        }
        Ok(Self(place))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let done = std::process::Command::new("umount").arg(self.0).status();
        if !done.is_ok_and(|status| status.success()) {
            eprintln!("warning: {} is still mounted", self.0.display());
        }
    }
}
