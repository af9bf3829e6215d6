//! Three workloads below one limit: one that behaves, an important one that is bigger than the hog
//! when the line is crossed but within its request, and the hog.

use super::{Evictor, Programs, Record, TestTree, Workload, wait_until};
use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::Serialize;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// What tells the evictor to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Events {
    /// The best that this kernel offers.
    Auto,
    /// These hooks only.
    Rungs(String),
    /// No eBPF: the kernel's own notifications and the timer.
    Psi,
    /// No eBPF: the adaptive timer.
    Timer,
    /// Nothing but the monitoring interval, as the kubelet does.
    None,
}

impl Events {
    pub(super) fn argument(&self) -> Option<String> {
        match self {
            Self::Auto => None,
            Self::Rungs(rungs) => Some(format!("--rungs={rungs}")),
            Self::Psi => Some("--events=psi".to_owned()),
            Self::Timer => Some("--events=timer".to_owned()),
            Self::None => Some("--events=none".to_owned()),
        }
    }
}

/// The sizes, in MiB, and the hog's rate.
#[derive(Debug, Clone)]
pub struct MemoryStory {
    pub limit: u64,
    pub threshold: u64,
    pub important: u64,
    pub important_request: u64,
    pub calm: u64,
    /// MiB a second.
    pub rate: u64,
    pub events: Events,
    /// This CPU goes and comes back before the hog starts, which then runs on it alone.
    pub replugged: Option<usize>,
    /// More arguments for `eviction run`.
    pub extra_args: Vec<String>,
}

impl MemoryStory {
    /// For a machine that runs natively.
    pub fn native(events: Events) -> Self {
        Self {
            limit: 512,
            threshold: 64,
            important: 240,
            important_request: 256,
            calm: 32,
            rate: 600,
            events,
            replugged: None,
            extra_args: vec![],
        }
    }

    /// For an emulated guest with little memory.
    pub fn guest(events: Events) -> Self {
        Self {
            limit: 256,
            threshold: 48,
            important: 110,
            important_request: 128,
            calm: 16,
            rate: 60,
            events,
            replugged: None,
            extra_args: vec![],
        }
    }
}

/// What happened.
#[derive(Debug, Clone, Serialize)]
pub struct MemoryOutcome {
    /// Empty when nothing was evicted.
    pub victim: String,
    /// The rung or timer that led to the decision.
    pub source: String,
    pub event_to_kill_us: Option<u64>,
    /// Bytes that the tree used past the line before the hog was stopped.
    pub overshoot_bytes: u64,
    pub oom_kills: u64,
    pub siblings_alive: bool,
    pub sample_age_us: Option<u64>,
    /// When the hog's own count came to the line; `None`: it was stopped before.
    #[serde(skip)]
    pub crossing_ns: Option<u64>,
    #[serde(skip)]
    pub records: Vec<Record>,
    #[serde(skip)]
    pub hog_peak_bytes: u64,
}

impl MemoryStory {
    pub fn run(&self, programs: &Programs) -> Result<MemoryOutcome> {
        let folder = tempfile::tempdir()?;
        let tree = TestTree::create("memory", self.limit * MIB)?;
        let start = |name: &str, args: &[&str], mark| {
            Workload::start(programs, &tree, folder.path(), name, args, mark)
        };
        let mut important = start(
            "important",
            &["hold", &(self.important * MIB).to_string()],
            0,
        )?;
        let mut calm = start("calm", &["hold", &(self.calm * MIB).to_string()], 0)?;
        important.reaches(self.important * MIB, Duration::from_secs(60))?;
        calm.reaches(self.calm * MIB, Duration::from_secs(60))?;

        let mut evictor = Evictor::start(programs, &self.arguments(&tree))?;
        evictor.wait_for("started", Duration::from_secs(60))?;

        if let Some(cpu) = self.replugged {
            replug(cpu)?;
        }
        let line = (self.limit - self.threshold) * MIB;
        let before = tree.usage()?;
        let left = line
            .checked_sub(before)
            .context("the quiet workloads alone are past the line")?;
        let hog_args = [
            "hog",
            &(self.limit * 4 * MIB).to_string(),
            &(self.rate * MIB).to_string(),
        ];
        // A child inherits where its parent may run.
        let everywhere = sched_getaffinity(Pid::from_raw(0))?;
        if let Some(cpu) = self.replugged {
            let mut alone = CpuSet::new();
            alone.set(cpu)?;
            sched_setaffinity(Pid::from_raw(0), &alone)?;
        }
        let hog = start("hog", &hog_args, left);
        sched_setaffinity(Pid::from_raw(0), &everywhere)?;
        let mut hog = hog?;

        // Far more than the hog needs to run into the limit.
        let limit = Duration::from_secs(20 + 2 * self.limit / self.rate);
        let ended = wait_until(limit, || {
            (!hog.is_alive() || !important.is_alive()).then_some(())
        });
        ended.context("neither the hog nor anything else was killed")?;
        if tree.oom_kills()? == 0 {
            evictor.wait_for("gone", Duration::from_secs(30))?;
        }
        // As a service ends; one that is gone already has nothing more to say.
        let _ = evictor.terminate(Duration::from_secs(10));
        evictor.drain();

        let used = tree.peak().unwrap_or(before + hog.done());
        let decision = evictor.of_kind("decision").next().cloned();
        let kill = evictor.of_kind("kill").next().cloned();
        Ok(MemoryOutcome {
            victim: decision
                .as_ref()
                .map(|d| d.text("victim").to_owned())
                .unwrap_or_default(),
            source: decision
                .as_ref()
                .map(|d| d.text("source").to_owned())
                .unwrap_or_default(),
            event_to_kill_us: kill.as_ref().and_then(|k| k.number("event_to_kill_us")),
            overshoot_bytes: used.saturating_sub(line),
            oom_kills: tree.oom_kills()?,
            siblings_alive: important.is_alive() && calm.is_alive(),
            sample_age_us: decision.as_ref().and_then(|d| d.number("sample_age_us")),
            crossing_ns: hog.crossing_ns(),
            hog_peak_bytes: hog.done(),
            records: evictor.seen.clone(),
        })
    }

    fn arguments(&self, tree: &TestTree) -> Vec<String> {
        let mut args = vec![
            "--platform=host".to_owned(),
            format!("--root={}", tree.root().display()),
            format!(
                "--eviction-hard=allocatableMemory.available<{}Mi",
                self.threshold
            ),
            format!("--workload=important:request={}Mi", self.important_request),
        ];
        args.extend(self.events.argument());
        args.extend(self.extra_args.iter().cloned());
        args
    }
}

/// Shorter than a heartbeat, so that the list of online CPUs mostly looks the same at each.
const AWAY: Duration = Duration::from_millis(200);
/// Several heartbeats.
const BACK: Duration = Duration::from_secs(5);

/// Takes a CPU away for a moment, and gives it back long before anything happens.
fn replug(cpu: usize) -> Result<()> {
    let switch = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    for (state, stays) in [("0", AWAY), ("1", BACK)] {
        std::fs::write(&switch, state)
            .with_context(|| format!("cannot write {state} to {switch}"))?;
        std::thread::sleep(stays);
    }
    Ok(())
}
