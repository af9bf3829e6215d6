//! What the engine adds around the kubelet's cycle: time, failed kills, missing facts.

use std::sync::Arc;

use eviction_core::model::{
    Action, Condition, FsLayout, Operator, Pod, Signal, Span, Timestamp, Uid,
};
use eviction_core::policy::admission::Admission;
use eviction_core::policy::cycle::LayoutUnknown;
use eviction_core::policy::{EngineConfig, Input, Settings};

use crate::fixture::{
    PLENTY, Story, evictions, hard, memory, over_its_own_limit, pod, snapshot, soft, victims,
};

fn memory_story() -> Story {
    Story::new(vec![hard(Signal::MemoryAvailable, "100")])
}

#[test]
fn case_49_who_was_refused_is_passed_over_until_its_time_also_if_nobody_else_is_left() {
    let pods = [pod("a", 0, 300), pod("b", 0, 200)];
    for (again, at, expected) in [(0, 1, "a"), (60, 59, "b"), (60, 62, "a")] {
        let mut story = memory_story();
        assert_eq!(story.victims(0, memory(50), &pods), ["a"]);
        story.refused(1, "a", again);
        assert_eq!(story.victims(at, memory(50), &pods), [expected]);
    }
    let mut story = memory_story();
    for (at, expected) in [(0, "a"), (1, "b")] {
        assert_eq!(story.victims(at, memory(50), &pods), [expected]);
        story.refused(at, expected, 10);
    }
    assert!(story.victims(2, memory(50), &pods).is_empty());
    assert_eq!(story.victims(10, memory(50), &pods), ["a"]);
}

#[test]
fn what_a_soft_threshold_was_refused_a_hard_one_may_take() {
    let mut story = Story::new(vec![
        hard(Signal::MemoryAvailable, "100"),
        soft(Signal::MemoryAvailable, "200", 1),
    ]);
    let pods = [pod("a", 0, 300)];
    story.look(0, memory(150), &pods);
    assert_eq!(story.victims(2, memory(150), &pods), ["a"]);
    story.refused(3, "a", 600);
    assert!(story.victims(4, memory(150), &pods).is_empty());
    assert_eq!(story.victims(5, memory(50), &pods), ["a"]);
}

#[test]
fn case_49_after_a_kill_that_failed_the_next_candidate_has_its_turn() {
    let mut story = memory_story();
    let pods = [pod("a", 0, 300), pod("b", 0, 200)];
    assert_eq!(story.victims(0, memory(50), &pods), ["a"]);
    story.failed(1, "a");
    assert!(story.engine.waiting().is_none());
    assert_eq!(story.deadline(), Some(1), "measure again at once");
    assert_eq!(story.victims(1, memory(50), &pods), ["b"]);
}

#[test]
fn case_49_if_all_have_failed_the_first_one_is_tried_again() {
    let mut story = memory_story();
    let pods = [pod("a", 0, 300), pod("b", 0, 200)];
    for (at, expected) in [(0, "a"), (1, "b"), (2, "a")] {
        assert_eq!(story.victims(at, memory(50), &pods), [expected]);
        story.failed(at, expected);
    }
}

#[test]
fn a_failed_candidate_is_passed_over_for_30_s_only() {
    let mut story = memory_story();
    let pods = [pod("a", 0, 300), pod("b", 0, 200), pod("c", 0, 100)];
    story.look(0, memory(50), &pods);
    story.failed(1, "a");
    assert_eq!(story.look(2, PLENTY, &pods).len(), 0);
    assert_eq!(story.victims(30, memory(50), &pods), ["b"]);
    story.gone(31, "b");
    assert_eq!(
        story.victims(31, memory(50), &[pods[0].clone(), pods[2].clone()]),
        ["a"]
    );
}

#[test]
fn a_soft_threshold_waits_for_its_grace_and_the_engine_says_when_to_look() {
    let mut story = Story::new(vec![soft(Signal::MemoryAvailable, "100", 90)]);
    let pods = [pod("a", 0, 300)];
    let actions = story.look(10, memory(50), &pods);
    assert_eq!(
        actions,
        [Action::Conditions(vec![Condition::MemoryPressure])],
        "raised at once"
    );
    assert_eq!(story.deadline(), Some(100));
    assert_eq!(story.victims(99, memory(50), &pods), [""; 0]);
    assert_eq!(story.victims(100, memory(50), &pods), ["a"]);
}

#[test]
fn one_good_sample_restarts_a_soft_grace() {
    let mut story = Story::new(vec![soft(Signal::MemoryAvailable, "100", 90)]);
    let pods = [pod("a", 0, 300)];
    story.look(0, memory(50), &pods);
    story.look(89, memory(100), &pods);
    assert_eq!(story.victims(90, memory(50), &pods), [""; 0]);
    assert_eq!(story.victims(180, memory(50), &pods), ["a"]);
}

#[test]
fn a_sample_that_fails_changes_nothing() {
    let mut story = Story::new(vec![soft(Signal::MemoryAvailable, "100", 90)]);
    let pods = [pod("a", 0, 300)];
    story.look(0, memory(50), &pods);
    story.now = 50;
    assert_eq!(story.input(Input::SampleFailed { layout: None }), []);
    assert_eq!(
        story.victims(90, memory(50), &pods),
        ["a"],
        "the grace went on"
    );
}

#[test]
fn conditions_last_for_the_transition_period_and_turn_pods_away_meanwhile() {
    let mut story = memory_story();
    let best_effort = Pod::new(Uid::new("new"), "default", "new");
    story.look(0, memory(50), &[]);
    assert!(matches!(
        story.engine.admit(&best_effort),
        Admission::Reject { .. }
    ));
    assert_eq!(story.look(10, PLENTY, &[]), []);
    assert_eq!(story.deadline(), Some(300));
    assert_eq!(story.look(299, PLENTY, &[]), []);
    assert_eq!(story.look(300, PLENTY, &[]), [Action::Conditions(vec![])]);
    assert_eq!(story.engine.admit(&best_effort), Admission::Admit);
    assert_eq!(story.deadline(), None);
}

#[test]
fn without_the_layout_a_look_is_refused_and_nothing_is_remembered_of_it() {
    let mut story = memory_story();
    let mut look = snapshot(0, memory(50), &[pod("a", 0, 300)]);
    look.layout = None;
    let refused = story.engine.handle(
        Timestamp::from_secs(0),
        Input::Cycle(Arc::new(look.clone())),
    );
    assert_eq!(refused, Err(LayoutUnknown));
    assert_eq!(story.engine.conditions(), []);
    let failed = story.engine.handle(
        Timestamp::from_secs(0),
        Input::SampleFailed { layout: None },
    );
    assert_eq!(failed, Err(LayoutUnknown));
    story.input(Input::SampleFailed {
        layout: Some(FsLayout::default()),
    });
    assert_eq!(victims(&story.look_at(1, look)), ["a"], "known from now on");
}

#[test]
fn containerfs_thresholds_follow_the_layout_and_act_from_the_second_look() {
    let mut story = Story::new(vec![hard(Signal::NodeFsAvailable, "100")]);
    assert_eq!(story.engine.thresholds().len(), 1);
    story.look(0, PLENTY, &[]);
    let signals: Vec<_> = story
        .engine
        .thresholds()
        .iter()
        .map(|threshold| threshold.signal)
        .collect();
    assert_eq!(
        signals
            .iter()
            .filter(|signal| **signal == Signal::ContainerFsAvailable)
            .count(),
        2
    );
}

#[test]
fn another_layout_is_in_force_once_it_is_told_and_its_thresholds_with_it() {
    let mut story = Story::new(vec![
        hard(Signal::NodeFsAvailable, "100"),
        hard(Signal::ImageFsAvailable, "200"),
    ]);
    story.look(0, PLENTY, &[]);
    let containerfs = |story: &Story| {
        let all = story.engine.thresholds().iter();
        let limits = all
            .filter(|t| t.signal == Signal::ContainerFsAvailable && t.operator != Operator::Never);
        limits.map(|t| t.limit.clone()).collect::<Vec<_>>()
    };
    let limit = |signal| hard(Signal::ContainerFsAvailable, signal).limit;
    assert_eq!(containerfs(&story), [limit("100")]);
    let apart = FsLayout {
        dedicated_imagefs: true,
        split_containerfs: false,
    };
    assert_eq!(story.input(Input::Relaid { layout: apart }), []);
    assert_eq!(story.engine.state().layout(), Some(apart));
    assert_eq!(containerfs(&story), [limit("200")]);
}

#[test]
fn several_pods_over_their_own_limits_go_at_once_and_all_are_waited_for() {
    let mut story = memory_story();
    let pods = [over_its_own_limit("a"), over_its_own_limit("b")];
    let actions = story.look(0, memory(50), &pods);
    assert_eq!(victims(&actions), ["a", "b"], "before any threshold");
    assert_eq!(
        evictions(&actions)[0].cause.metric_label(),
        "emptydirfs.limit"
    );
    story.gone(1, "a");
    assert_eq!(story.engine.waiting().unwrap().victims, [Uid::new("b")]);
    assert_eq!(story.look(1, memory(50), &pods), []);
    story.gone(2, "b");
    assert!(story.engine.waiting().is_none());
}

#[test]
fn an_outcome_nobody_waits_for_is_harmless() {
    let mut story = memory_story();
    assert_eq!(story.gone(0, "stranger"), []);
    assert_eq!(story.failed(0, "stranger"), []);
    assert_eq!(story.deadline(), None);
    assert_eq!(story.reclaimed(0, None), []);
}

#[test]
fn the_deadline_of_a_clean_up_can_be_given_as_an_input() {
    let config = EngineConfig {
        cleanup_timeout: Span::from_secs(5),
        ..EngineConfig::with_thresholds(vec![hard(Signal::MemoryAvailable, "100")])
    };
    let mut story = Story::with(config);
    story.look(0, memory(50), &[pod("a", 0, 300)]);
    story.now = 4;
    assert_eq!(story.input(Input::CleanupTimeout), []);
    story.now = 5;
    assert_eq!(
        story.input(Input::CleanupTimeout),
        [Action::CleanupTimedOut(vec![Uid::new("a")])]
    );
    assert_eq!(story.deadline(), Some(5));
}

#[test]
fn with_nothing_to_watch_nothing_is_looked_at() {
    let settings = Settings {
        local_storage_isolation: false,
        ..Settings::with_thresholds(vec![])
    };
    let mut story = Story::with_settings(settings);
    let mut look = snapshot(0, memory(0), &[pod("a", 0, 300)]);
    look.layout = None;
    assert_eq!(story.look_at(0, look), []);
}
