//! Our additions, each off by default.

use eviction_core::model::{Action, Hold, ObservedPod, Pod, Signal, Span, Uid};
use eviction_core::policy::EngineConfig;
use eviction_core::policy::additions::Additions;
use eviction_core::policy::additions::protection::{LabelRule, ProtectionRules};
use eviction_core::policy::additions::victim_size::MinVictimSize;

use crate::fixture::{
    PLENTY, Story, hard, memory, observed, over_its_own_limit, pod, snapshot, victims, with,
};

fn story(additions: Additions) -> Story {
    let config = EngineConfig::with_thresholds(vec![hard(Signal::MemoryAvailable, "100")]);
    Story::with(EngineConfig {
        additions,
        ..config
    })
}

fn holds(actions: &[Action]) -> Vec<Hold> {
    let hold = |action: &Action| {
        if let Action::Held(hold) = action {
            Some(*hold)
        } else {
            None
        }
    };
    actions.iter().filter_map(hold).collect()
}

#[test]
fn the_default_additions_are_none() {
    let none = Additions::default();
    assert!(
        none.cool_down.is_none() && none.max_per_hour.is_none() && none.min_stall_percent.is_none()
    );
    assert_eq!(none.max_dying_cgroups, None);
    assert!(!none.honor_annotations);
    assert!(!none.only_while_filling);
    assert_eq!(none.min_victim_size, MinVictimSize::default());
    assert_eq!(none.protection, ProtectionRules::default());
}

#[test]
fn case_24_protected_namespaces_labels_and_the_own_pod_are_outside_the_candidate_set() {
    let protection = ProtectionRules {
        own_pod: Some(Uid::new("me")),
        namespaces: ["kube-system".to_owned()].into(),
        labels: [LabelRule {
            key: "keep".to_owned(),
            value: None,
        }]
        .into(),
    };
    let mut story = story(Additions {
        protection,
        ..Additions::default()
    });
    let in_namespace = |uid: &str, namespace: &str| Pod::new(Uid::new(uid), namespace, uid);
    let pods = [
        observed(in_namespace("me", "default"), 900),
        observed(in_namespace("apiserver", "kube-system"), 800),
        with(pod("kept", 0, 700), |pod| {
            drop(pod.labels.insert("keep".to_owned(), String::new()))
        }),
        pod("plain", 0, 1),
    ];
    assert_eq!(story.victims(0, memory(50), &pods), ["plain"]);
}

fn asking(key: &str, value: &str, pod: ObservedPod) -> ObservedPod {
    with(pod, |pod| {
        drop(
            pod.annotations
                .insert(format!("eviction.dev/{key}"), value.to_owned()),
        )
    })
}

#[test]
fn annotations_spare_a_pod_or_let_it_go_first_only_where_they_are_honoured() {
    // The biggest asks to be spared, the second to go at more than it has, the smallest to go first, of which one says so wrongly.
    let pods = [
        asking("protect", "true", pod("spared", 0, 900)),
        asking("memory-threshold", "800", pod("within", 0, 800)),
        asking("protect", "yes", pod("wrong", 0, 700)),
        asking("prefer", "true", pod("first", 0, 2)),
        // It keeps to its request.
        asking("prefer", "true", pod("modest", 10, 2)),
        asking("prefer", "1", pod("plain", 0, 1)),
    ];
    let order = |honor_annotations| {
        let mut left = pods.to_vec();
        let mut order = Vec::new();
        while !left.is_empty() {
            let mut story = story(Additions {
                honor_annotations,
                ..Additions::default()
            });
            let Some(victim) = story.victims(0, memory(50), &left).first().cloned() else {
                break;
            };
            left.retain(|pod| pod.pod.uid.as_str() != victim);
            order.push(victim);
        }
        order
    };
    assert_eq!(
        order(false),
        ["spared", "within", "wrong", "first", "plain", "modest"]
    );
    assert_eq!(order(true), ["first", "wrong", "plain", "modest", "within"]);
}

#[test]
fn a_cool_down_holds_the_next_eviction_and_names_the_time_left() {
    let mut story = story(Additions {
        cool_down: Some(Span::from_secs(60)),
        ..Additions::default()
    });
    let pods = [pod("a", 0, 300), pod("b", 0, 200)];
    assert_eq!(story.victims(0, memory(50), &pods), ["a"]);
    story.gone(1, "a");
    let held = story.look(10, memory(50), &pods[1..]);
    assert_eq!(
        holds(&held),
        [Hold::CoolDown {
            left: Span::from_secs(50)
        }]
    );
    assert!(victims(&held).is_empty() && story.engine.waiting().is_none());
    assert_eq!(story.deadline(), Some(60));
    assert_eq!(story.victims(60, memory(50), &pods[1..]), ["b"]);
}

#[test]
fn a_cap_per_hour_holds_what_exceeds_it_and_a_failed_kill_does_not_count() {
    let mut story = story(Additions {
        max_per_hour: Some(1),
        ..Additions::default()
    });
    let pods = [pod("a", 0, 300), pod("b", 0, 200), pod("c", 0, 100)];
    story.look(0, memory(50), &pods);
    story.failed(1, "a");
    assert_eq!(story.victims(2, memory(50), &pods), ["b"]);
    story.gone(3, "b");
    let held = story.look(3, memory(50), &pods);
    assert_eq!(
        holds(&held),
        [Hold::HourlyCap {
            cap: 1,
            left: Span::from_secs(3_599)
        }]
    );
    assert_eq!(story.victims(3_602, memory(50), &pods).len(), 1);
}

#[test]
fn a_cap_also_holds_for_several_pods_that_break_their_own_limits_at_once() {
    let mut story = story(Additions {
        max_per_hour: Some(2),
        ..Additions::default()
    });
    let pods = ["a", "b", "c"].map(over_its_own_limit);
    assert_eq!(story.victims(0, PLENTY, &pods), ["a", "b"]);
    assert_eq!(story.engine.waiting().unwrap().victims.len(), 2);
}

#[test]
fn case_22_with_the_stall_guard_low_memory_without_stall_evicts_nobody() {
    let mut story = story(Additions {
        min_stall_percent: Some(10.0),
        ..Additions::default()
    });
    let look = |at, stall| {
        let mut look = snapshot(at, memory(50), &[pod("a", 0, 300)]);
        look.summary.memory_stall_percent = stall;
        look
    };
    let held = story.look_at(0, look(0, Some(2.5)));
    assert_eq!(
        holds(&held),
        [Hold::NoStall {
            required: 10.0,
            stall: Some(2.5)
        }]
    );
    assert_eq!(story.deadline(), Some(1), "asked again before the interval");
    assert_eq!(holds(&story.look_at(1, look(1, None))).len(), 1);
    assert_eq!(victims(&story.look_at(2, look(2, Some(10.0)))), ["a"]);
}

#[test]
fn case_18_while_removed_cgroups_hold_the_memory_nobody_is_evicted() {
    let mut story = story(Additions {
        max_dying_cgroups: Some(1_000),
        ..Additions::default()
    });
    let look = |at, dying| {
        let mut look = snapshot(at, memory(50), &[pod("a", 0, 300)]);
        look.summary.dying_cgroups = dying;
        look
    };
    let held = story.look_at(0, look(0, Some(40_000)));
    assert_eq!(
        holds(&held),
        [Hold::DyingCgroups {
            most: 1_000,
            dying: 40_000
        }]
    );
    assert!(victims(&held).is_empty() && story.engine.waiting().is_none());
    assert_eq!(victims(&story.look_at(1, look(1, Some(1_000)))), ["a"]);
}

#[test]
fn pods_below_the_minimum_victim_size_are_spared() {
    let min_victim_size = MinVictimSize {
        memory: Some(100),
        ..MinVictimSize::default()
    };
    let mut story = story(Additions {
        min_victim_size,
        ..Additions::default()
    });
    let pods = [pod("tiny", 0, 99), pod("within", 500, 200)];
    assert_eq!(
        story.victims(0, memory(50), &pods),
        ["within"],
        "although only the tiny one exceeds its request"
    );
}
