//! Disk pressure on a real file system of our own: the base of the ranking, and reclaim before anybody goes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::scenario::{Disk, Evictor, Programs, Record, TestTree, Workload, wait_until};
use eviction_tests::suite::{self, Case};

const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "if --reclaim frees enough nobody is evicted (case 36)",
            reclaim_helps,
        ),
        Case::new(
            "a reclaim that hangs is killed in time, and then a victim goes",
            reclaim_hangs,
        ),
        Case::new(
            "a reclaim that frees nothing is told once, and then a victim goes (case 38)",
            reclaim_in_vain,
        ),
        Case::new(
            "short of inodes, who has many small files goes before who has a big one (case 37)",
            inodes_not_bytes,
        ),
        Case::new(
            "short of bytes, the disk that is short is named with both figures (case 20)",
            names_the_disk,
        ),
        Case::new(
            "short of bytes, what has grown since the scan counts with what it found",
            grown_since_the_scan,
        ),
    ]
}

/// An ext4 of 64 MiB, and two workloads whose files lie on it.
struct Story {
    // In this order, because the disk lies in the folder.
    tree: TestTree,
    disk: Disk,
    folder: tempfile::TempDir,
    programs: Programs,
}

impl Story {
    fn new(name: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        Ok(Self {
            programs: Programs::in_folder(&suite::programs()?),
            disk: Disk::make(folder.path(), 4_096)?,
            tree: TestTree::create(name, 256 * MIB)?,
            folder,
        })
    }

    /// A process with files of so many MiB on the disk.
    fn workload(&self, name: &str, mib: u64) -> Result<Workload> {
        fill(&self.disk.path().join(name), mib)?;
        self.process(name)
    }

    fn process(&self, name: &str) -> Result<Workload> {
        let folder: &Path = self.folder.path();
        let arguments = ["hold", "4096"];
        let mut load = Workload::start(&self.programs, &self.tree, folder, name, &arguments, 0)?;
        load.reaches(4096, LONG)?;
        Ok(load)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.disk.path().join(name)
    }

    /// Watches the disk by the timer: that the kernel's events come is another story.
    fn arguments(&self, more: &[&str]) -> Vec<String> {
        self.arguments_with("--events=timer", more)
    }

    fn arguments_with(&self, events: &str, more: &[&str]) -> Vec<String> {
        let dir = |name| format!("--workload={name}:dir={}", self.file(name).display());
        let mut all = vec![
            "--platform=host".to_owned(),
            events.to_owned(),
            // The scan stands back: on a busy machine it may be late.
            "--monitoring-interval=500ms".to_owned(),
            format!("--root={}", self.tree.root().display()),
            format!("--nodefs={}", self.disk.path().display()),
            dir("calm"),
            dir("hog"),
        ];
        all.extend(more.iter().map(|argument| (*argument).to_owned()));
        all
    }

    fn evictor(&self, more: &[&str]) -> Result<Evictor> {
        Ok(Evictor::start(&self.programs, &self.arguments(more))?)
    }

    /// A line that is not crossed yet: it is when 4 MiB more are written.
    fn line(&self) -> Result<String> {
        let line = self.disk.available()? - 4 * MIB;
        Ok(format!("--eviction-hard=nodefs.available<{line}"))
    }

    /// Crosses the line once the evictor has come to know the workloads' files.
    fn cross(&self, evictor: &mut Evictor) -> Result<()> {
        evictor.wait_for("started", LONG)?;
        // At once: whoever fills a disk on and on is another story.
        let file = fs::File::create(self.file("hog").join("at-once"))?;
        Ok(nix::fcntl::posix_fallocate(&file, 0, 8 << 20)?)
    }
}

/// Writes a file of so many MiB into a directory.
fn fill(dir: &Path, mib: u64) -> Result<()> {
    fs::create_dir_all(dir)?;
    let name = format!("{}-mib", fs::read_dir(dir)?.count());
    let file = fs::File::create(dir.join(name))?;
    for _ in 0..mib {
        std::io::Write::write_all(&mut &file, &vec![7; MIB as usize])?;
    }
    Ok(file.sync_all()?)
}

fn reclaim_helps() -> Result<()> {
    let story = Story::new("reclaim-helps")?;
    let (mut calm, mut hog) = (story.workload("calm", 2)?, story.workload("hog", 4)?);
    fill(&story.file("junk"), 16)?;
    let command = format!("--reclaim=rm -r {}", story.file("junk").display());
    let mut evictor = story.evictor(&[&story.line()?, &command])?;
    story.cross(&mut evictor)?;
    evictor.wait_for("reclaim", LONG)?;
    let reclaimed = evictor.wait_for("reclaimed", LONG)?;
    // The cycle that the kubelet would run next, and the one after it.
    evictor.terminate(LONG)?;
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    let freed = reclaimed.0["freed_bytes"].as_i64().unwrap_or(0);
    if decisions > 0
        || reclaimed.0["good"] != true
        || freed < 8 * MIB as i64
        || !(calm.is_alive() && hog.is_alive())
    {
        bail!("{:?}", evictor.seen);
    }
    Ok(())
}

/// Runs a reclaim that does not help; its record, and the decision after it.
fn reclaim_does_not_help(name: &str, arguments: &[&str]) -> Result<(Record, Record)> {
    let story = Story::new(name)?;
    let (mut calm, mut hog) = (story.workload("calm", 2)?, story.workload("hog", 4)?);
    let line = story.line()?;
    let mut evictor = story.evictor(&[&[line.as_str()], arguments].concat())?;
    story.cross(&mut evictor)?;
    let reclaimed = evictor.wait_for("reclaimed", LONG)?;
    let decision = evictor.wait_for("decision", LONG)?;
    evictor.wait_for("gone", LONG)?;
    let gone = wait_until(LONG, || (!hog.is_alive()).then_some(()));
    gone.context("the hog still runs")?;
    // Its files are still there, and nobody else goes for them.
    let held = wait_until(LONG, || {
        evictor.drain();
        let mut held = evictor.of_kind("held-back");
        held.any(|r| r.text("reason") == "not-filling")
            .then_some(())
    });
    evictor.terminate(LONG)?;
    evictor.drain();
    let (reclaims, decisions) = (
        evictor.of_kind("reclaimed").count(),
        evictor.of_kind("decision").count(),
    );
    if decision.text("victim") != "hog"
        || (reclaims, decisions) != (1, 1)
        || held.is_none()
        || !calm.is_alive()
    {
        bail!("held {held:?}: {:?}", evictor.seen);
    }
    Ok((reclaimed, decision))
}

fn reclaim_hangs() -> Result<()> {
    let arguments = ["--reclaim=sleep 1000", "--reclaim-timeout=500ms"];
    let (reclaimed, decision) = reclaim_does_not_help("reclaim-hangs", &arguments)?;
    let took = reclaimed.number("took_ms").unwrap_or(0);
    if reclaimed.text("end") != "not done within 0.5 s, killed"
        || took < 500
        || decision.t_ns() < reclaimed.t_ns()
    {
        bail!("{reclaimed:?}, {decision:?}");
    }
    Ok(())
}

fn reclaim_in_vain() -> Result<()> {
    let (reclaimed, _) = reclaim_does_not_help("reclaim-vain", &["--reclaim=exit 3"])?;
    if reclaimed.text("end") != "exit code 3"
        || reclaimed.0["good"] != false
        || reclaimed.number("not_again_for_ms") != Some(60_000)
    {
        bail!("{reclaimed:?}");
    }
    Ok(())
}

fn inodes_not_bytes() -> Result<()> {
    let story = Story::new("inodes")?;
    let mut calm = story.workload("calm", 30)?;
    let mut hog = story.process("hog")?;
    let small_files = |from: u32, to: u32| -> Result<()> {
        fs::create_dir_all(story.file("hog"))?;
        for i in from..to {
            fs::write(story.file("hog").join(i.to_string()), "")?;
        }
        Ok(())
    };
    small_files(0, 300)?;
    let line = story.disk.inodes()?.1 - 100;
    let hard = format!("--eviction-hard=nodefs.inodesFree<{line}");
    let mut evictor = story.evictor(&[&hard])?;
    evictor.wait_for("started", LONG)?;
    small_files(300, 500)?;
    let decision = evictor.wait_for("decision", LONG)?;
    let gone = wait_until(LONG, || (!hog.is_alive()).then_some(()));
    gone.context("the hog still runs")?;
    if decision.text("victim") != "hog" {
        bail!("calm {}: {:?}", calm.is_alive(), evictor.seen);
    }
    Ok(())
}

fn names_the_disk() -> Result<()> {
    let story = Story::new("bytes")?;
    let (_calm, _hog) = (story.workload("calm", 2)?, story.workload("hog", 4)?);
    let mut evictor = story.evictor(&[&story.line()?])?;
    story.cross(&mut evictor)?;
    let decision = evictor.wait_for("decision", LONG)?;
    let place = decision.text("place");
    let mount = story.disk.path().display().to_string();
    let candidates = decision.0["ranking"]["candidates"].as_array();
    let first = candidates
        .and_then(|all| all.first())
        .context("no ranking")?;
    let scanned = first["disk"][0]["scanned_bytes"].as_u64().unwrap_or(0);
    let age = first["disk"][0]["scan_age_s"].as_u64();
    if decision.text("victim") != "hog"
        || !(place.starts_with("device ") && place.ends_with(&mount))
        || decision.number("available").is_none()
        || decision.number("capacity").is_none()
        || scanned < 4 * MIB
        || age.is_none()
    {
        bail!("{decision:?}");
    }
    Ok(())
}

/// By what the scan found the calm one has most. The hog grows past it before the next scan: only the kernel's counters know.
fn grown_since_the_scan() -> Result<()> {
    let story = Story::new("grown")?;
    let mut calm = story.workload("calm", 20)?;
    fill(&story.file("hog"), 4)?;
    let line = story.disk.available()? - 24 * MIB;
    let hard = format!("--eviction-hard=nodefs.available<{line}");
    let arguments = story.arguments_with("--events=auto", &[&hard]);
    let mut evictor = Evictor::start(&story.programs, &arguments)?;
    evictor.wait_for("started", LONG)?;
    let file = story.file("hog").join("growing").display().to_string();
    // Slow enough for the scan, which stands back on a busy machine.
    let (bytes, rate) = ((28 * MIB).to_string(), (3 * MIB).to_string());
    let load = ["write", &file, &bytes, &rate];
    let folder = story.folder.path();
    let _hog = Workload::start(&story.programs, &story.tree, folder, "hog", &load, 0)?;
    let decision = evictor.wait_for("decision", LONG)?;
    evictor.wait_for("gone", LONG)?;
    let candidates = decision.0["ranking"]["candidates"].as_array();
    let of = |name: &str| {
        let found = candidates?.iter().find(|found| found["name"] == name)?;
        let disk = &found["disk"][0];
        Some((
            disk["scanned_bytes"].as_u64()?,
            disk["grown_bytes"].as_i64(),
        ))
    };
    let (scanned, grown) = of("hog").context("the hog has no figures")?;
    let (others, _) = of("calm").context("the calm one has no figures")?;
    let grown = grown.and_then(|grown| u64::try_from(grown).ok());
    // The scan may have met the growing file already; what it saw of it is not counted again.
    if decision.text("victim") != "hog"
        || scanned >= others
        || scanned + grown.unwrap_or(0) <= others
        || !calm.is_alive()
    {
        bail!("{decision:?}");
    }
    Ok(())
}
