//! Disk and inodes: node-level reclaim comes first, pods after (user cases 36 to 38).

use eviction_core::model::{Action, FsLayout, ReclaimCall, Signal};

use crate::fixture::{Left, PLENTY, Story, disk_pod, hard, memory, snapshot, soft, victims};

const DISK_LOW: Left = Left { disk: 50, ..PLENTY };
const IMAGES_LOW: Left = Left {
    images: 50,
    ..PLENTY
};

fn disk_story() -> Story {
    Story::new(vec![
        hard(Signal::MemoryAvailable, "100"),
        hard(Signal::NodeFsAvailable, "100"),
        hard(Signal::NodeFsInodesFree, "100"),
        hard(Signal::ImageFsAvailable, "100"),
    ])
}

fn reclaim_calls(actions: &[Action]) -> Vec<ReclaimCall> {
    let calls = |action: &Action| {
        if let Action::ReclaimNode { calls, .. } = action {
            calls.to_vec()
        } else {
            vec![]
        }
    };
    actions.iter().flat_map(calls).collect()
}

#[test]
fn case_36_on_a_full_imagefs_images_go_before_pods() {
    let mut story = disk_story();
    let pods = [disk_pod("a", 10, 1)];
    let actions = story.look(0, IMAGES_LOW, &pods);
    assert_eq!(
        reclaim_calls(&actions),
        [ReclaimCall::DeadContainers, ReclaimCall::UnusedImages]
    );
    assert!(victims(&actions).is_empty() && story.engine.is_reclaiming());
    assert_eq!(story.reclaimed(5, Some(PLENTY)), [], "that was enough");
    assert!(!story.engine.is_reclaiming());
}

#[test]
fn case_36_with_a_dedicated_imagefs_nodefs_has_nothing_to_reclaim_and_a_pod_goes_at_once() {
    let mut story = disk_story();
    let mut look = snapshot(0, DISK_LOW, &[disk_pod("a", 10, 1)]);
    look.layout = Some(FsLayout {
        dedicated_imagefs: true,
        split_containerfs: false,
    });
    let actions = story.look_at(0, look);
    assert_eq!(
        (reclaim_calls(&actions), victims(&actions)),
        (vec![], vec!["a".to_owned()])
    );
}

#[test]
fn case_37_on_inode_pressure_200000_empty_files_go_before_one_big_one() {
    let mut story = disk_story();
    let pods = [
        disk_pod("one-big-file", 1 << 30, 1),
        disk_pod("many-files", 0, 200_000),
    ];
    let low = Left {
        inodes: 50,
        ..PLENTY
    };
    story.look(0, low, &pods);
    assert_eq!(victims(&story.reclaimed(1, Some(low))), ["many-files"]);
}

#[test]
fn case_38_reclaim_that_frees_nothing_ends_in_one_eviction_per_look() {
    let mut story = disk_story();
    let pods = [disk_pod("a", 20, 1), disk_pod("b", 10, 1)];
    story.look(0, DISK_LOW, &pods);
    assert_eq!(victims(&story.reclaimed(5, Some(DISK_LOW))), ["a"]);
    assert_eq!(story.look(6, DISK_LOW, &pods), []);
    story.gone(7, "a");
    assert_eq!(
        reclaim_calls(&story.look(7, DISK_LOW, &pods[1..])).len(),
        2,
        "reclaim is tried again first"
    );
}

#[test]
fn case_38_a_second_reading_that_fails_is_not_a_success() {
    let mut story = disk_story();
    story.look(0, DISK_LOW, &[disk_pod("a", 20, 1)]);
    assert_eq!(victims(&story.reclaimed(5, None)), ["a"]);
}

#[test]
fn reclaim_only_succeeds_if_no_threshold_of_any_signal_is_met_even_a_soft_one_in_its_grace() {
    let mut story = Story::new(vec![
        hard(Signal::NodeFsAvailable, "100"),
        soft(Signal::MemoryAvailable, "300", 600),
    ]);
    let both_low = Left {
        disk: 50,
        memory: 200,
        ..PLENTY
    };
    story.look(0, both_low, &[disk_pod("a", 20, 1)]);
    assert_eq!(
        victims(&story.reclaimed(5, Some(memory(200)))),
        ["a"],
        "the disk is fine, memory is not"
    );
}

#[test]
fn image_cleanup_does_not_hide_memory_from_the_policy() {
    let mut story = disk_story();
    let pods = [disk_pod("a", 20, 1)];
    story.look(0, DISK_LOW, &pods);
    assert_eq!(
        story.look(5, DISK_LOW, &pods),
        [],
        "the same disk pressure waits for its answer"
    );
    assert_eq!(
        story.victims(
            6,
            Left {
                memory: 50,
                ..DISK_LOW
            },
            &pods
        ),
        ["a"]
    );
    assert_eq!(
        story.reclaimed(20, Some(DISK_LOW)),
        [],
        "the late answer changes nothing"
    );
}

#[test]
fn the_event_of_the_node_is_sent_once_per_pressure() {
    let mut story = disk_story();
    let events = |actions: &[Action]| {
        actions
            .iter()
            .filter(|action| matches!(action, Action::NodeEvent(_)))
            .count()
    };
    assert_eq!(events(&story.look(0, DISK_LOW, &[disk_pod("a", 20, 1)])), 1);
    assert_eq!(events(&story.reclaimed(1, Some(DISK_LOW))), 0);
}

#[test]
fn memory_is_acted_on_before_disk() {
    let mut story = disk_story();
    let actions = story.look(
        0,
        Left {
            memory: 50,
            ..DISK_LOW
        },
        &[disk_pod("a", 20, 1)],
    );
    assert_eq!(
        (reclaim_calls(&actions), victims(&actions)),
        (vec![], vec!["a".to_owned()])
    );
}
