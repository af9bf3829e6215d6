//! A node that runs short of tasks, with time to spare: who has most processes is asked to leave, does not,
//! and is killed when its grace is over.

use super::{Evictor, Programs, Record, TestTree, Workload};
use anyhow::{Context, Result};
use serde::Serialize;
use std::time::Duration;

/// The hog's processes, and how many of them fit before the line. What else runs on the machine comes and
/// goes too: both are far more than that.
const PROCESSES: u64 = 600;
const ROOM: u64 = 300;
const LONG: Duration = Duration::from_secs(120);

#[derive(Debug, Serialize)]
pub struct PidOutcome {
    pub victim: String,
    pub source: String,
    /// What was short, by the decision's own ranking.
    pub resource: String,
    /// From the request to leave to the kill.
    pub grace_ms: u64,
    pub killed: u64,
    pub siblings_alive: bool,
    #[serde(skip)]
    pub records: Vec<Record>,
}

pub fn run(programs: &Programs) -> Result<PidOutcome> {
    let folder = tempfile::tempdir()?;
    let tree = TestTree::create("pids", 256 << 20)?;
    let mut calm = Workload::start(programs, &tree, folder.path(), "calm", &["hold", "4096"], 0)?;
    calm.reaches(4096, LONG)?;
    let line = available_tasks()? - ROOM;
    let arguments = [
        "--platform=host".to_owned(),
        format!("--root={}", tree.root().display()),
        format!("--eviction-soft=pid.available<{line}"),
        "--eviction-soft-grace-period=pid.available=100ms".to_owned(),
        "--eviction-max-pod-grace-period=1".to_owned(),
    ];
    let mut evictor = Evictor::start(programs, &arguments)?;
    evictor.wait_for("started", LONG)?;
    let count = PROCESSES.to_string();
    let load = ["--ignore-sigterm", "fork", &count, "1000"];
    let _hog = Workload::start(programs, &tree, folder.path(), "hog", &load, 0)?;
    let decision = evictor.wait_for("decision", LONG)?;
    let asked = evictor.wait_for("asked", LONG)?;
    let kill = evictor.wait_for("kill", LONG)?;
    evictor.wait_for("gone", LONG)?;
    Ok(PidOutcome {
        victim: decision.text("victim").to_owned(),
        source: decision.text("source").to_owned(),
        resource: decision.0["ranking"]["resource"]
            .as_str()
            .unwrap_or("")
            .to_owned(),
        grace_ms: kill.t_ns().saturating_sub(asked.t_ns()) / 1_000_000,
        killed: kill.number("processes").unwrap_or(0),
        siblings_alive: calm.is_alive(),
        records: evictor.seen.clone(),
    })
}

impl PidOutcome {
    pub fn faults(&self) -> Vec<String> {
        let expected = [
            (self.victim == "hog", "the hog is not the victim"),
            (self.resource == "pids", "it was not for PIDs"),
            (
                self.grace_ms >= 1_000,
                "it was killed before its grace was over",
            ),
            (self.killed > ROOM, "not all of its processes were killed"),
            (self.siblings_alive, "its sibling was killed too"),
        ];
        let faults = expected.iter().filter(|(is_so, _)| !is_so);
        faults
            .map(|(_, what)| format!("{what}: {self:?}"))
            .collect()
    }
}

/// As the kubelet counts them.
fn available_tasks() -> Result<u64> {
    let number = |file: &str| -> Result<u64> {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
        Ok(text.trim().parse()?)
    };
    let most = number("/proc/sys/kernel/pid_max")?.min(number("/proc/sys/kernel/threads-max")?);
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let tasks = load
        .split(' ')
        .nth(3)
        .and_then(|field| field.split_once('/'));
    let (_, existing) = tasks.context("/proc/loadavg has no tasks")?;
    Ok(most - existing.parse::<u64>()?)
}
