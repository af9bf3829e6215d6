//! Node-level reclaim before an eviction for a disk.

use super::{FakeReclaim, Shared, event, hard, settings};
use crate::agent::Settings;
use crate::model::Signal;
use crate::policy::EngineConfig;
use crate::ports::{Entry, Freed, ReclaimBy, ReclaimEnd};
use std::time::Duration;

fn config() -> EngineConfig {
    let thresholds = vec![hard(Signal::MemoryAvailable), hard(Signal::NodeFsAvailable)];
    EngineConfig::with_thresholds(thresholds)
}

/// A disk with 50 MiB left, and a command that frees so much.
fn short(frees: u64, end: ReclaimEnd) -> Shared {
    let node = Shared::new(&[("a", 100), ("hog", 200)]);
    node.0.borrow_mut().disk_free = Some(50);
    node.0.borrow_mut().reclaim = Some(FakeReclaim {
        by: ReclaimBy::Command,
        may_end: true,
        frees,
        end,
        ended: 0,
    });
    node
}

fn often() -> Settings {
    Settings {
        interval: Duration::from_millis(20),
        ..settings()
    }
}

type Told = (ReclaimEnd, Option<Freed>, bool);

/// End, effect, and whether it is left alone for a while.
fn told(node: &Shared) -> Vec<Told> {
    let told = |entry: &Entry| match entry {
        Entry::Reclaimed {
            report,
            freed,
            rest,
            ..
        } => Some((report.end.clone(), *freed, rest.is_some())),
        _ => None,
    };
    node.0.borrow().entries.iter().filter_map(told).collect()
}

fn freed(mib: i64) -> Option<Freed> {
    Some(Freed {
        bytes: mib << 20,
        inodes: 0,
    })
}

/// User case 36: the image file system is full, and a pod goes before anybody cleaned up.
#[tokio::test]
async fn case_36_if_the_command_frees_enough_nobody_is_evicted() {
    let node = short(200, ReclaimEnd::Exited(0));
    let cycles = async {
        node.until("no reclaim", |node| !node.reclaims.is_empty())
            .await;
        let before = node.0.borrow().snapshots;
        node.until("no cycles", |node| node.snapshots > before + 3)
            .await;
    };
    node.run_with(config(), often(), cycles).await;
    assert!(node.0.borrow().killed.is_empty());
    assert_eq!(node.0.borrow().reclaims, [Signal::NodeFsAvailable]);
    assert_eq!(told(&node), [(ReclaimEnd::Exited(0), freed(200), false)]);
}

/// User case 38: a clean-up that wants bytes and frees none, again and again.
#[tokio::test]
async fn case_38_a_command_that_frees_nothing_is_told_and_not_run_for_every_victim() {
    let node = short(0, ReclaimEnd::Exited(0));
    let both = node.until("not both were killed", |node| node.killed.len() == 2);
    node.run_with(config(), often(), both).await;
    assert_eq!(node.0.borrow().reclaims, [Signal::NodeFsAvailable]);
    assert_eq!(told(&node), [(ReclaimEnd::Exited(0), freed(0), true)]);
}

#[tokio::test]
async fn a_command_that_fails_is_told_with_its_cause_and_a_victim_goes_unless_it_freed_enough() {
    let failed = ReclaimEnd::Exited(1);
    let node = short(10, failed.clone());
    let killed = node.until("nobody was killed", |node| !node.killed.is_empty());
    node.run_with(config(), settings(), killed).await;
    assert_eq!(told(&node), [(failed.clone(), freed(10), true)]);

    let node = short(300, failed.clone());
    let ended = node.until("it has not ended", |node| node.disk_free == Some(350));
    node.run_with(config(), settings(), ended).await;
    assert!(node.0.borrow().killed.is_empty(), "what counts is the disk");
}

#[tokio::test]
async fn while_the_command_runs_memory_that_runs_out_takes_its_victim_all_the_same() {
    let node = short(0, ReclaimEnd::Exited(0));
    node.0.borrow_mut().reclaim.as_mut().unwrap().may_end = false;
    let worse = async {
        node.until("no reclaim", |node| !node.reclaims.is_empty())
            .await;
        assert!(node.0.borrow().killed.is_empty());
        node.0.borrow_mut().used.insert("hog", 850);
        node.0.borrow_mut().event = Some(event());
        node.until("nobody was killed", |node| !node.killed.is_empty())
            .await;
    };
    node.run_with(config(), settings(), worse).await;
    assert_eq!(node.0.borrow().killed, ["hog"]);
}

#[tokio::test]
async fn if_the_second_reading_fails_a_victim_goes() {
    let node = short(500, ReclaimEnd::Exited(0));
    node.0.borrow_mut().reclaim.as_mut().unwrap().may_end = false;
    let blind = async {
        node.until("no reclaim", |node| !node.reclaims.is_empty())
            .await;
        node.0.borrow_mut().look_fails = true;
        node.0.borrow_mut().reclaim.as_mut().unwrap().may_end = true;
        node.until("nobody was killed", |node| !node.killed.is_empty())
            .await;
    };
    node.run_with(config(), settings(), blind).await;
    assert_eq!(told(&node), [(ReclaimEnd::Exited(0), None, false)]);
}

#[tokio::test]
async fn without_a_command_and_in_a_dry_run_nothing_is_run() {
    let node = short(500, ReclaimEnd::Exited(0));
    node.0.borrow_mut().reclaim = None;
    let killed = node.until("nobody was killed", |node| !node.killed.is_empty());
    node.run_with(config(), settings(), killed).await;

    let node = short(500, ReclaimEnd::Exited(0));
    let dry = Settings {
        dry_run: true,
        ..settings()
    };
    let decided = node.until("nothing was decided", |node| {
        let mut entries = node.entries.iter();
        entries.any(|e| {
            matches!(
                e,
                Entry::Decision {
                    processes: Some(7),
                    ..
                }
            )
        })
    });
    node.run_with(config(), dry, decided).await;
    assert!(node.0.borrow().reclaims.is_empty());
    let said = |entry: &Entry| matches!(entry, Entry::Reclaim { order, .. } if order.dry_run);
    assert!(node.0.borrow().entries.iter().any(said));
}

#[tokio::test]
async fn in_a_dry_run_a_runtime_is_asked_what_there_would_be_and_not_for_every_decision() {
    let node = short(0, ReclaimEnd::Done);
    node.0.borrow_mut().reclaim.as_mut().unwrap().by = ReclaimBy::Runtime;
    let dry = Settings {
        dry_run: true,
        ..often()
    };
    let decided = node.until("no decisions", |node| {
        let is_decision = |entry: &&Entry| matches!(entry, Entry::Decision { .. });
        node.entries.iter().filter(is_decision).count() > 2
    });
    node.run_with(config(), dry, decided).await;
    assert_eq!(node.0.borrow().reclaims, [Signal::NodeFsAvailable]);
    assert_eq!(told(&node), [(ReclaimEnd::Done, freed(0), true)]);
    assert!(node.0.borrow().killed.is_empty());
}
