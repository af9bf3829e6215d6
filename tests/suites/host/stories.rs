//! The demo's stories with its assertions, and the same without eBPF.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::scenario::demo::{inode_faults, is_timer, memory_faults, right_victim};
use eviction_tests::scenario::{
    Events, InodeStory, MemoryStory, Programs, TestTree, cache, wait_until,
};
use eviction_tests::suite::{self, Case, Outcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a memory hog dies in time, nobody else does", memory),
        Case::new(
            "without events and with a 10 s cycle the OOM killer comes first",
            control,
        ),
        Case::new("an inode hog dies before the file system is full", inodes),
        Case::new("without eBPF a slow memory hog dies in time", slow_memory),
        Case::new(
            "without eBPF the kernel's own notifications are used, and the rest is explained",
            own_notifications,
        ),
        Case::new(
            "Ctrl-C in the middle of the demo leaves nothing behind",
            interrupted,
        ),
        Case::new(
            "case 14: page cache in use evicts by the kubelet's figure, not by the reclaim-aware one",
            page_cache,
        ),
        Case::new("without eBPF a slow inode hog dies in time", slow_inodes),
    ]
}

fn programs() -> Result<Programs> {
    Ok(Programs::in_folder(&suite::programs()?))
}

fn judged(faults: Vec<String>, note: String) -> Result<Outcome> {
    if faults.is_empty() {
        Ok(Outcome::Noted(note))
    } else {
        bail!(faults.join("\n"))
    }
}

fn memory() -> Result<Outcome> {
    let outcome = MemoryStory::native(Events::Auto).run(&programs()?)?;
    let us = outcome.event_to_kill_us.unwrap_or(0);
    judged(
        memory_faults(&outcome),
        format!("{us} us from event to SIGKILL, by {}", outcome.source),
    )
}

fn control() -> Result<()> {
    let outcome = MemoryStory::native(Events::None).run(&programs()?)?;
    if outcome.oom_kills == 0 {
        bail!("no OOM kill: {outcome:?}");
    }
    Ok(())
}

fn inodes() -> Result<Outcome> {
    let outcome = InodeStory::native(Events::Auto).run(&programs()?)?;
    judged(
        inode_faults(&outcome),
        format!("{} inodes free, by {}", outcome.inodes_free, outcome.source),
    )
}

fn slow_memory() -> Result<Outcome> {
    let story = MemoryStory {
        rate: 50,
        ..MemoryStory::native(Events::Timer)
    };
    let outcome = story.run(&programs()?)?;
    let mut faults = right_victim("memory", &outcome.victim, outcome.siblings_alive);
    if outcome.oom_kills > 0 || !is_timer(&outcome.source) {
        faults.push(format!("{outcome:?}"));
    }
    judged(
        faults,
        format!("{} KiB past the line", outcome.overshoot_bytes >> 10),
    )
}

fn slow_inodes() -> Result<Outcome> {
    let story = InodeStory {
        rate: 20_000,
        ..InodeStory::native(Events::Timer)
    };
    let outcome = story.run(&programs()?)?;
    let mut faults = right_victim("inodes", &outcome.victim, outcome.siblings_alive);
    if outcome.enospc || !is_timer(&outcome.source) {
        faults.push(format!("{outcome:?}"));
    }
    judged(faults, format!("{} inodes free", outcome.inodes_free))
}

fn page_cache() -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("data");
    std::fs::File::create(&file)?.set_len(cache::FILE)?;
    let outcome = cache::run(&programs()?, &file, 100 << 20)?;
    judged(
        outcome.faults(),
        format!("the hog held {} MiB", outcome.hog_bytes >> 20),
    )
}

/// User cases 1 and 5: which accelerated source works on this machine is told, and it is in use.
fn own_notifications() -> Result<Outcome> {
    let story = MemoryStory {
        rate: 60,
        ..MemoryStory::native(Events::Psi)
    };
    let outcome = story.run(&programs()?)?;
    let started = outcome.records.iter().find(|r| r.kind() == "started");
    let started = started.context("it never started")?;
    let source = started.text("memory").to_owned();
    let ladder = started.0.get("ladder").and_then(|ladder| ladder.as_array());
    let ladder = ladder.context("it does not tell its ladder")?;
    let used = |name: &str| {
        ladder
            .iter()
            .any(|step| step["name"] == name && step["places"] == 1 && step["why_not"].is_null())
    };
    let explained = ladder
        .iter()
        .all(|step| (step["places"] == 0) == step["why_not"].is_string());
    if source == "timer" || !used(&source) || !explained {
        bail!("events come from {source:?}, the ladder is {ladder:?}");
    }
    judged(
        right_victim("memory", &outcome.victim, outcome.siblings_alive),
        format!("{source}; the decision was woken by {}", outcome.source),
    )
}

fn interrupted() -> Result<()> {
    let programs = programs()?;
    let scenario = programs.eviction.with_file_name("eviction-scenario");
    let mut demo = Command::new(scenario)
        .arg("demo")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let tree = format!(
        "{}/eviction-test-{}-memory",
        TestTree::hierarchy(),
        demo.id()
    );
    let hog = Path::new(&tree).join("hog");
    let running = wait_until(Duration::from_secs(60), || hog.exists().then_some(()));
    kill(Pid::from_raw(i32::try_from(demo.id())?), Signal::SIGINT)?;
    let ended = wait_until(Duration::from_secs(30), || demo.try_wait().ok().flatten());
    if ended.is_none() {
        demo.kill()?;
        demo.wait()?;
    }
    running.context("the demo never came to its hog")?;
    let status = ended.context("the demo did not end within 30 s")?;
    if status.success() {
        bail!("an interrupted demo must not count as good");
    }
    if Path::new(&tree).exists() {
        bail!("{tree} is still there");
    }
    Ok(())
}
