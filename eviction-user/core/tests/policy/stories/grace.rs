//! The grace of a soft threshold's victim, and what ends it early.

use eviction_core::model::{Action, Signal, Uid};
use eviction_core::policy::{EngineConfig, Settings};

use crate::fixture::{Left, Story, evictions, hard, memory, pod, soft, victims};

/// Soft below 300 at once after 5 s, hard below 100; 60 s for the victim to leave.
fn story() -> Story {
    let thresholds = vec![
        hard(Signal::MemoryAvailable, "100"),
        hard(Signal::NodeFsAvailable, "100"),
        soft(Signal::MemoryAvailable, "300", 5),
    ];
    Story::with_settings(Settings {
        max_pod_grace_secs: 60,
        ..Settings::with_thresholds(thresholds)
    })
}

fn ended(actions: &[Action]) -> bool {
    let all = [Uid::new("a")];
    actions
        .iter()
        .any(|action| matches!(action, Action::EndGrace(victims) if *victims == all))
}

#[test]
fn a_soft_victim_is_waited_for_until_its_grace_and_the_clean_up_time_are_over() {
    let mut story = story();
    let pods = [pod("a", 0, 500), pod("b", 0, 200)];
    story.look(0, memory(200), &pods);
    let actions = story.look(5, memory(200), &pods);
    assert_eq!(evictions(&actions)[0].grace.0, 60);
    assert!(!ended(&actions), "nothing is pressing");
    assert_eq!(story.deadline(), Some(5 + 60 + 30));
    assert_eq!(story.look(94, memory(200), &pods), []);
    assert_eq!(story.victims(95, memory(200), &pods), ["b"]);
}

#[test]
fn a_hard_threshold_ends_the_grace_once_and_takes_no_second_victim_yet() {
    let mut story = story();
    let pods = [pod("a", 0, 500), pod("b", 0, 200)];
    story.look(0, memory(200), &pods);
    story.look(5, memory(200), &pods);
    let actions = story.look(6, memory(99), &pods);
    assert!(
        ended(&actions) && victims(&actions).is_empty(),
        "{actions:?}"
    );
    assert_eq!(story.look(7, memory(99), &pods), [], "said once");
    assert_eq!(story.deadline(), Some(6 + 30), "as after any kill");
    story.gone(8, "a");
    assert_eq!(story.victims(8, memory(99), &pods[1..]), ["b"]);
}

#[test]
fn a_hard_disk_threshold_ends_the_grace_of_a_memory_victim_that_goes_first() {
    let mut story = story();
    let pods = [pod("a", 0, 500)];
    let short_of_both = Left {
        disk: 50,
        ..memory(200)
    };
    story.look(0, memory(200), &pods);
    let actions = story.look(5, short_of_both, &pods);
    assert_eq!(victims(&actions), ["a"]);
    assert!(ended(&actions), "{actions:?}");
}

#[test]
fn the_victim_of_a_hard_threshold_has_no_grace_to_end() {
    let mut story = Story::with(EngineConfig::with_thresholds(vec![hard(
        Signal::MemoryAvailable,
        "100",
    )]));
    let pods = [pod("a", 0, 500)];
    let actions = story.look(0, memory(50), &pods);
    assert!(!ended(&actions), "{actions:?}");
    assert!(!ended(&story.look(1, memory(50), &pods)));
}
