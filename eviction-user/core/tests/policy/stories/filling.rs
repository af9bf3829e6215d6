//! A host's disk stays as full as the victim left it.

use eviction_core::model::{Action, FsLayout, Hold, ObservedPod, Signal};
use eviction_core::policy::EngineConfig;
use eviction_core::policy::additions::Additions;

use crate::fixture::{CAPACITY, Left, PLENTY, Story, disk_pod, hard, snapshot, victims};

/// Hard below 100 bytes of disk, with images elsewhere, so that nothing is reclaimed first.
fn story() -> Story {
    let config = EngineConfig::with_thresholds(vec![hard(Signal::NodeFsAvailable, "100")]);
    let mut story = Story::with(EngineConfig {
        additions: Additions::default().sparing(),
        ..config
    });
    story.look_at(0, picture(0, 900, &pods()));
    story
}

fn pods() -> Vec<ObservedPod> {
    ["a", "b", "c"].map(|uid| disk_pod(uid, 100, 1)).to_vec()
}

fn picture(at: i64, disk: u64, pods: &[ObservedPod]) -> eviction_core::model::Snapshot {
    let mut picture = snapshot(at, Left { disk, ..PLENTY }, pods);
    picture.layout = Some(FsLayout {
        dedicated_imagefs: true,
        split_containerfs: true,
    });
    picture
}

impl Story {
    /// Looks, without reclaim; who goes.
    fn disk(&mut self, at: i64, disk: u64) -> Vec<String> {
        let mut actions = self.look_at(at, picture(at, disk, &pods()));
        if self.engine.is_reclaiming() {
            actions.extend(self.reclaimed(at, Some(Left { disk, ..PLENTY })));
        }
        let held = actions.iter().any(|action| {
            matches!(
                action,
                Action::Held(Hold::NotFilling { .. } | Hold::Recovering { .. })
            )
        });
        let mut said = victims(&actions);
        said.extend(held.then(|| "held".to_owned()));
        said
    }
}

#[test]
fn after_a_victim_that_freed_nothing_nobody_goes_until_the_disk_fills_further() {
    let mut story = story();
    assert_eq!(story.disk(1, 50), ["a"]);
    story.gone(2, "a");
    assert_eq!(story.disk(2, 45), ["held"], "it wrote on until it was dead");
    assert_eq!(story.disk(12, 45), ["held"]);
    assert_eq!(story.disk(22, 44), ["held"], "that is noise");
    assert_eq!(story.disk(32, 43), ["a"], "somebody else goes on");
}

#[test]
fn case_34_while_evictions_do_free_something_they_go_on() {
    let mut story = story();
    assert_eq!(story.disk(1, 50), ["a"]);
    story.gone(2, "a");
    assert_eq!(story.disk(2, 60), ["held"], "is that all?");
    assert_eq!(story.deadline(), Some(3), "asked again soon");
    assert_eq!(story.disk(3, 65), ["held"], "no, it goes on");
    assert_eq!(story.disk(4, 65), ["a"]);
}

#[test]
fn pids_that_come_back_late_cost_nobody_else() {
    let config = EngineConfig::with_thresholds(vec![hard(Signal::PidAvailable, "100")]);
    let mut story = Story::with(EngineConfig {
        additions: Additions::default().sparing(),
        ..config
    });
    let pods = ["a", "b"].map(|uid| {
        let mut pod = disk_pod(uid, 0, 0);
        pod.stats
            .iter_mut()
            .for_each(|stats| stats.process_count = Some(9));
        pod
    });
    let left = |pids| Left { pids, ..PLENTY };
    assert_eq!(story.victims(1, left(50), &pods), ["a"]);
    story.gone(2, "a");
    assert_eq!(story.victims(2, left(50), &pods[1..]), [""; 0]);
    assert_eq!(story.victims(3, left(80), &pods[1..]), [""; 0]);
    assert_eq!(story.victims(4, left(900), &pods[1..]), [""; 0]);
    assert_eq!(story.victims(5, left(50), &pods[1..]), ["b"], "anew");
}

#[test]
fn a_kill_that_failed_and_pressure_that_was_over_start_anew() {
    let mut story = story();
    assert_eq!(story.disk(1, 50), ["a"]);
    story.failed(2, "a");
    assert_eq!(story.disk(2, 50), ["b"]);
    story.gone(3, "b");
    assert_eq!(story.disk(3, 50), ["held"]);
    assert_eq!(story.disk(13, CAPACITY - 100), [""; 0]);
    assert_eq!(story.disk(23, 50).len(), 1);
    assert_ne!(story.disk(24, 50), ["held"], "a victim is awaited");
}

#[test]
fn without_the_addition_the_kubelets_rule_holds() {
    let mut story = Story::new(vec![hard(Signal::NodeFsAvailable, "100")]);
    assert_eq!(story.disk(1, 50), ["a"]);
    story.gone(2, "a");
    assert_eq!(story.disk(2, 50), ["a"]);
}
