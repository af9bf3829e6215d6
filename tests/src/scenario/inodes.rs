//! A workload that makes empty files as fast as it can, beside one that makes a few.

use super::{Disk, Events, Evictor, Programs, Record, TestTree, Workload, wait_until};
use anyhow::{Context, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[derive(Debug, Clone)]
pub struct InodeStory {
    /// A ready ext4 image; `None`: one is made.
    pub image: Option<PathBuf>,
    pub inodes: u64,
    /// The line, in percent of all inodes.
    pub percent: u64,
    /// Files a second; 0 = as fast as it goes.
    pub rate: u64,
    pub events: Events,
}

#[derive(Debug, Clone, Serialize)]
pub struct InodeOutcome {
    pub victim: String,
    pub source: String,
    pub event_to_kill_us: Option<u64>,
    pub enospc: bool,
    pub siblings_alive: bool,
    /// Inodes left when the hog was gone, and the line.
    pub inodes_free: u64,
    pub threshold: u64,
    /// When the hog's own count came to the line; `None`: it was stopped before.
    #[serde(skip)]
    pub crossing_ns: Option<u64>,
    #[serde(skip)]
    pub records: Vec<Record>,
}

impl InodeStory {
    pub fn native(events: Events) -> Self {
        Self {
            image: None,
            inodes: 65_536,
            percent: 25,
            rate: 0,
            events,
        }
    }

    pub fn guest(image: PathBuf, events: Events) -> Self {
        Self {
            image: Some(image),
            inodes: 8_192,
            percent: 25,
            rate: 2_000,
            events,
        }
    }

    pub fn run(&self, programs: &Programs) -> Result<InodeOutcome> {
        let folder = tempfile::tempdir()?;
        let disk = match &self.image {
            Some(image) => Disk::mount(image, folder.path())?,
            None => Disk::make(folder.path(), self.inodes)?,
        };
        let tree = TestTree::create("inodes", 256 << 20)?;
        let start = |name: &str, count: u64, rate: u64, mark| {
            let dir = disk.path().join(name).display().to_string();
            let args = ["inodes", &dir, &count.to_string(), &rate.to_string()];
            Workload::start(programs, &tree, folder.path(), name, &args, mark)
        };

        let mut evictor = Evictor::start(programs, &self.arguments(&tree, &disk))?;
        evictor.wait_for("started", Duration::from_secs(60))?;

        let few = self.inodes / 32;
        let mut calm = start("calm", few, 0, 0)?;
        calm.reaches(few, Duration::from_secs(60))?;
        let (all, free) = disk.inodes()?;
        let threshold = all * self.percent / 100;
        let mut hog = start("hog", all * 2, self.rate, free - threshold)?;
        let ended = wait_until(Duration::from_secs(120), || {
            (!hog.is_alive() || refused(&hog)).then_some(())
        });
        ended.context("the inode hog was neither killed nor refused")?;
        if !refused(&hog) {
            evictor.wait_for("gone", Duration::from_secs(30))?;
        }
        evictor.drain();
        let decision = evictor.of_kind("decision").next().cloned();
        let text = |key: &str| {
            decision
                .as_ref()
                .map(|d| d.text(key).to_owned())
                .unwrap_or_default()
        };
        Ok(InodeOutcome {
            victim: text("victim"),
            source: text("source"),
            event_to_kill_us: evictor
                .of_kind("kill")
                .next()
                .and_then(|k| k.number("event_to_kill_us")),
            enospc: refused(&hog) || refused(&calm),
            siblings_alive: calm.is_alive(),
            inodes_free: disk.inodes()?.1,
            threshold,
            crossing_ns: hog.crossing_ns(),
            records: evictor.seen.clone(),
        })
    }

    fn arguments(&self, tree: &TestTree, disk: &Disk) -> Vec<String> {
        let mut args = vec![
            "--platform=host".to_owned(),
            format!("--root={}", tree.root().display()),
            format!("--eviction-hard=nodefs.inodesFree<{}%", self.percent),
            format!("--nodefs={}", disk.path().display()),
        ];
        args.extend(self.events.argument());
        if self.events == Events::Timer {
            // Without eBPF nobody counts inodes per cgroup: the user has to say where each one's files lie.
            args.extend(
                ["hog", "calm"].map(|name| {
                    format!("--workload={name}:dir={}", disk.path().join(name).display())
                }),
            );
        }
        args
    }
}

fn refused(load: &Workload) -> bool {
    load.page().refused.load(Ordering::Acquire) != 0
}
