//! The kernel's OOM killer strikes before anybody could evict: what does `eviction run` say about it?

use super::{Events, Evictor, Programs, TestTree, Workload, wait_until};
use anyhow::{Context, Result, bail};
use std::time::Duration;

const LIMIT: u64 = 48 << 20;
/// The cycle in which the kernel's counters are compared with the events.
const INTERVAL: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(120);

pub struct OomStory {
    pub events: Events,
    /// Runs `eviction` in a cgroup namespace of its own, as in a container.
    pub in_namespace: bool,
    pub extra_args: Vec<String>,
}

/// A line, or a figure, for the record kind that the story ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// As it happened: in this cgroup, and so much later on the kernel's counters agreed.
    Event { cgroup: String },
    /// By the kernel's counters alone.
    Counter {
        cgroup: String,
        counted: u64,
        seen: u64,
    },
}

impl OomStory {
    pub fn new(events: Events) -> Self {
        Self {
            events,
            in_namespace: false,
            extra_args: Vec::new(),
        }
    }

    pub fn run(&self, programs: &Programs) -> Result<Told> {
        let folder = tempfile::tempdir()?;
        let tree = TestTree::create("oom", LIMIT)?;
        let mut args = vec![
            "--platform=host".to_owned(),
            format!("--root={}", tree.root().display()),
            // Never met: what is looked at is the kernel's own killing.
            "--eviction-hard=memory.available<1Mi".to_owned(),
            format!("--monitoring-interval={}s", INTERVAL.as_secs()),
        ];
        args.extend(self.events.argument());
        args.extend(self.extra_args.iter().cloned());
        // Not in the same tree: it must not be the second victim there.
        let own = TestTree::create("oom-self", 16 * LIMIT)?;
        let mut evictor = if self.in_namespace {
            Evictor::start_in_namespace(programs, &args, &own.add("self")?)?
        } else {
            Evictor::start(programs, &args)?
        };
        evictor.wait_for("started", PATIENCE)?;
        let hog_args = ["hog", "134217728", "0"];
        let mut hog = Workload::start(programs, &tree, folder.path(), "hog", &hog_args, 0)?;
        let killed = wait_until(PATIENCE, || (!hog.is_alive()).then_some(()));
        killed.context("the hog took twice the limit and still runs")?;
        if tree.oom_kills()? != 1 {
            bail!("{} OOM kills in the tree", tree.oom_kills()?);
        }
        let record = evictor.wait_for_any(&["oom-kill", "oom-mismatch"], PATIENCE)?;
        let cgroup = record.text("cgroup").to_owned();
        if record.kind() == "oom-mismatch" {
            return Ok(Told::Counter {
                cgroup,
                counted: record.number("counted").unwrap_or(0),
                seen: record.number("seen").unwrap_or(0),
            });
        }
        if record.number("pid") != Some(hog.pid().into()) {
            bail!("the hog is process {}: {}", hog.pid(), record.0);
        }
        // Two further comparisons would show what the counters know better.
        let wrong = evictor.wait_for("oom-mismatch", 4 * INTERVAL);
        if let Ok(mismatch) = wrong {
            bail!("events and counters do not agree: {}", mismatch.0);
        }
        Ok(Told::Event { cgroup })
    }
}

/// As the host names it, whatever namespace `eviction` runs in.
fn is_hog(cgroup: &str) -> bool {
    cgroup.starts_with("/eviction-test-") && cgroup.ends_with("-oom/hog")
}

impl Told {
    /// What is not as it should be; `by_counter`: no event could tell.
    pub fn faults(&self, by_counter: bool) -> Vec<String> {
        let right = match self {
            Self::Event { cgroup } => !by_counter && is_hog(cgroup),
            Self::Counter {
                cgroup,
                counted,
                seen,
            } => by_counter && is_hog(cgroup) && (*counted, *seen) == (1, 0),
        };
        if right {
            Vec::new()
        } else {
            vec![format!("the OOM kill was told as {self:?}")]
        }
    }
}
