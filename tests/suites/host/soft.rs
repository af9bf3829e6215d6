//! Soft thresholds on this machine: real processes that are asked, waited for, and killed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::scenario::{self, Evictor, Programs, TestTree, Workload, wait_until};
use eviction_tests::suite::{self, Case, Outcome};
use nix::sys::signal::Signal;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 256 * MIB;
const LONG: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a soft victim that leaves when asked is not killed", leaves),
        Case::new(
            "a soft victim that ignores SIGTERM is killed when its own grace is over",
            ignores,
        ),
        Case::new(
            "a hard threshold met meanwhile kills the soft victim at once",
            hard_meanwhile,
        ),
        Case::new(
            "short of PIDs, who has most processes is asked and then killed as a whole (case 29)",
            pids,
        ),
        Case::new(
            "a restart goes on with the victim of the last process (case 2)",
            restart,
        ),
        Case::new(
            "once met, evictions go on until limit and minimum reclaim are free (case 34)",
            minimum_reclaim,
        ),
        Case::new(
            "started below the threshold, one victim at a time (case 33)",
            one_at_a_time,
        ),
        Case::new(
            "a dry run tells how many processes it would kill (case 30)",
            counts_processes,
        ),
        Case::new(
            "a workload with more processes than allowed is refused (case 30)",
            refuses_many,
        ),
    ]
}

/// Workloads that hold memory below one limit, and an evictor that watches it.
struct Story {
    programs: Programs,
    folder: tempfile::TempDir,
    tree: TestTree,
}

impl Story {
    fn new(name: &str) -> Result<Self> {
        Ok(Self {
            programs: Programs::in_folder(&suite::programs()?),
            folder: tempfile::tempdir()?,
            tree: TestTree::create(name, LIMIT)?,
        })
    }

    fn evictor(&self, arguments: &[&str]) -> Result<Evictor> {
        let mut all = vec![
            "--platform=host".to_owned(),
            format!("--root={}", self.tree.root().display()),
        ];
        all.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Ok(Evictor::start(&self.programs, &all)?)
    }

    fn hold(&self, name: &str, mib: u64) -> Result<Workload> {
        self.load(name, mib, &[])
    }

    fn load(&self, name: &str, mib: u64, options: &[&str]) -> Result<Workload> {
        let bytes = (mib * MIB).to_string();
        let arguments = [options, &["hold", &bytes]].concat();
        let folder: &Path = self.folder.path();
        let mut load = Workload::start(&self.programs, &self.tree, folder, name, &arguments, 0)?;
        load.reaches(mib * MIB, LONG)?;
        Ok(load)
    }
}

/// Soft below 100 MiB for a tenth of a second, hard below 40 MiB.
const THRESHOLDS: [&str; 3] = [
    "--eviction-hard=allocatableMemory.available<40Mi",
    "--eviction-soft=allocatableMemory.available<100Mi",
    "--eviction-soft-grace-period=allocatableMemory.available=100ms",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&THRESHOLDS, more].concat()
}

fn leaves() -> Result<()> {
    let story = Story::new("soft-leaves")?;
    let mut calm = story.hold("calm", 20)?;
    let mut hog = story.hold("hog", 150)?;
    let mut evictor = story.evictor(&with(&["--eviction-max-pod-grace-period=60"]))?;
    let decision = evictor.wait_for("decision", LONG)?;
    let asked = evictor.wait_for("asked", LONG)?;
    evictor.wait_for("gone", LONG)?;
    let ended = wait_until(LONG, || hog.ended_by());
    evictor.drain();
    if decision.text("victim") != "hog"
        || decision.number("grace_s") != Some(60)
        || asked.number("grace_ms") != Some(60_000)
        || evictor.of_kind("kill").next().is_some()
        || ended != Some(Signal::SIGTERM as i32)
        || !calm.is_alive()
    {
        bail!("ended by {ended:?}: {:?}", evictor.seen);
    }
    Ok(())
}

fn ignores() -> Result<()> {
    let story = Story::new("soft-ignores")?;
    let mut hog = story.load("hog", 170, &["--ignore-sigterm"])?;
    // Its own second is less than what is allowed at most.
    let arguments = [
        "--eviction-max-pod-grace-period=600",
        "--workload=hog:grace=1",
    ];
    let mut evictor = story.evictor(&with(&arguments))?;
    let asked = evictor.wait_for("asked", LONG)?;
    let kill = evictor.wait_for("kill", LONG)?;
    evictor.wait_for("gone", LONG)?;
    let ended = wait_until(LONG, || hog.ended_by());
    let waited_ns = kill.t_ns().saturating_sub(asked.t_ns());
    if asked.number("grace_ms") != Some(1_000)
        || waited_ns < 1_000_000_000
        || asked.text("id") != kill.text("id")
        || ended != Some(Signal::SIGKILL as i32)
    {
        bail!(
            "ended by {ended:?} after {waited_ns} ns: {:?}",
            evictor.seen
        );
    }
    Ok(())
}

fn hard_meanwhile() -> Result<()> {
    let story = Story::new("soft-hard")?;
    let mut hog = story.load("hog", 170, &["--ignore-sigterm"])?;
    let mut evictor = story.evictor(&with(&["--eviction-max-pod-grace-period=600"]))?;
    evictor.wait_for("asked", LONG)?;
    if !hog.is_alive() {
        bail!("it has ten minutes: {:?}", evictor.seen);
    }
    let mut more = story.hold("more", 60)?;
    evictor.wait_for("grace-ended", LONG)?;
    evictor.wait_for("kill", LONG)?;
    evictor.wait_for("gone", LONG)?;
    let ended = wait_until(LONG, || hog.ended_by());
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    if ended != Some(Signal::SIGKILL as i32) || decisions != 1 || !more.is_alive() {
        bail!("ended by {ended:?}: {:?}", evictor.seen);
    }
    Ok(())
}

fn pids() -> Result<Outcome> {
    let outcome = scenario::pids::run(&Programs::in_folder(&suite::programs()?))?;
    let faults = outcome.faults();
    if !faults.is_empty() {
        bail!(faults.join("\n"));
    }
    Ok(Outcome::Noted(format!(
        "{} processes, woken by {}",
        outcome.killed, outcome.source
    )))
}

fn restart() -> Result<()> {
    let story = Story::new("restart")?;
    let mut hog = story.load("hog", 170, &["--ignore-sigterm"])?;
    let state = format!("--state={}", story.folder.path().join("state").display());
    let arguments = with(&["--eviction-max-pod-grace-period=600", &state]);
    let mut evictor = story.evictor(&arguments)?;
    evictor.wait_for("asked", LONG)?;
    let kept = story.folder.path().join("state/victims.json");
    let written = wait_until(LONG, || {
        fs::read_to_string(&kept)
            .ok()
            .filter(|text| text.contains("hog"))
    });
    written.context("the victim was not written down")?;
    // By SIGKILL, in the middle of the grace.
    drop(evictor);
    let mut evictor = story.evictor(&arguments)?;
    let taken_over = evictor.wait_for("taken-over", LONG)?;
    evictor.wait_for("started", LONG)?;
    let grace_ms = taken_over.number("grace_ms").unwrap_or(0);
    if !hog.is_alive() || !(1..600_000).contains(&grace_ms) {
        bail!("{grace_ms} ms left: {:?}", evictor.seen);
    }
    // Now it is urgent. Whoever comes next is not to be blamed for it.
    let mut more = story.hold("more", 60)?;
    evictor.wait_for("kill", LONG)?;
    evictor.wait_for("gone", LONG)?;
    let ended = wait_until(LONG, || hog.ended_by());
    evictor.drain();
    if ended != Some(Signal::SIGKILL as i32)
        || evictor.of_kind("decision").next().is_some()
        || !more.is_alive()
    {
        bail!("ended by {ended:?}: {:?}", evictor.seen);
    }
    Ok(())
}

fn minimum_reclaim() -> Result<()> {
    let story = Story::new("min-reclaim")?;
    let mut loads = Vec::new();
    for (name, mib) in [("a", 60), ("b", 50), ("c", 40), ("kept", 80)] {
        loads.push(story.hold(name, mib)?);
    }
    // 26 MiB or less are free: below the line. One victim brings it over it, two also over the reclaim's.
    let mut evictor = story.evictor(&[
        "--eviction-hard=allocatableMemory.available<40Mi",
        "--eviction-minimum-reclaim=allocatableMemory.available=70Mi",
        "--workload=kept:protect",
    ])?;
    let both = wait_until(LONG, || {
        evictor.drain();
        (evictor.of_kind("gone").count() == 2).then_some(())
    });
    both.with_context(|| format!("not two victims: {:?}", evictor.seen))?;
    let (alive, free) = (
        loads.iter_mut().map(Workload::is_alive).collect::<Vec<_>>(),
        LIMIT - story.tree.usage()?,
    );
    let (code, stderr) = evictor.terminate(LONG)?;
    if alive != [false, false, true, true] || free < 110 * MIB || code != Some(0) {
        bail!(
            "{alive:?}, {free} free, exit {code:?}: {:?} {stderr}",
            evictor.seen
        );
    }
    Ok(())
}

fn one_at_a_time() -> Result<()> {
    let story = Story::new("one-at-a-time")?;
    let mut loads = Vec::new();
    for (name, mib) in [("a", 90), ("b", 70), ("c", 60)] {
        loads.push(story.hold(name, mib)?);
    }
    for round in 0..2 {
        let mut evictor = story.evictor(&["--eviction-hard=allocatableMemory.available<60Mi"])?;
        evictor.wait_for("started", LONG)?;
        if round == 0 {
            evictor.wait_for("gone", LONG)?;
        }
        // The restarted one finds room and leaves everybody alone.
        let (code, stderr) = evictor.terminate(LONG)?;
        evictor.drain();
        let decisions = evictor.of_kind("decision").count();
        if decisions != 1 - round || code != Some(0) {
            bail!("round {round}, exit {code:?}: {:?} {stderr}", evictor.seen);
        }
    }
    let alive: Vec<_> = loads.iter_mut().map(Workload::is_alive).collect();
    if alive != [false, true, true] {
        bail!("{alive:?}");
    }
    Ok(())
}

/// The hog and two more processes in its cgroup.
fn three_processes(story: &Story) -> Result<Vec<Workload>> {
    let mut loads = vec![story.hold("hog", 150)?];
    for name in ["second", "third"] {
        let bytes = MIB.to_string();
        let group = story.tree.root().join("hog").display().to_string();
        let arguments = ["--cgroup", &group, "hold", &bytes];
        let folder = story.folder.path();
        loads.push(Workload::start(
            &story.programs,
            &story.tree,
            folder,
            name,
            &arguments,
            0,
        )?);
        loads
            .last_mut()
            .context("just pushed")?
            .reaches(MIB, LONG)?;
    }
    Ok(loads)
}

fn counts_processes() -> Result<()> {
    let story = Story::new("dry-run")?;
    let mut loads = three_processes(&story)?;
    let hard = "--eviction-hard=allocatableMemory.available<200Mi";
    let mut evictor = story.evictor(&[hard, "--dry-run"])?;
    let decision = evictor.wait_for("decision", LONG)?;
    if decision.text("victim") != "hog"
        || decision.number("processes") != Some(3)
        || !loads.iter_mut().all(Workload::is_alive)
    {
        bail!("{decision:?}");
    }
    Ok(())
}

fn refuses_many() -> Result<()> {
    let story = Story::new("many")?;
    let mut loads = three_processes(&story)?;
    let mut calm = story.hold("calm", 20)?;
    let hard = "--eviction-hard=allocatableMemory.available<200Mi";
    let mut evictor = story.evictor(&[hard, "--max-processes=2"])?;
    let decision = evictor.wait_for("decision", LONG)?;
    evictor.wait_for("gone", LONG)?;
    let said = decision.0.to_string();
    if decision.text("victim") != "calm"
        || !said.contains("--max-processes 2: it has 3")
        || !loads.iter_mut().all(Workload::is_alive)
    {
        bail!("{said}");
    }
    wait_until(LONG, || (!calm.is_alive()).then_some(())).context("calm still runs")
}
