//! Looks, decisions and kills of the loop.

use super::*;
use crate::model::Action;
use crate::telemetry::metrics::Vitals;

#[tokio::test]
async fn a_calm_node_loses_nobody_and_is_armed_with_its_distance() {
    let node = Shared::new(&[("a", 200), ("b", 300)]);
    node.run(settings(), |_| {}).await;
    assert!(node.0.borrow().killed.is_empty());
    let left = i64::try_from(400 * MIB).unwrap() + 1;
    let level = Some(900 * MIB + 1);
    assert_eq!(node.0.borrow().armed[0], Distance { left, level });
}

/// User case 3: notified in time, decided on old data.
#[tokio::test]
async fn case_3_an_event_leads_to_a_decision_on_a_fresh_look() {
    let node = Shared::new(&[("a", 200), ("hog", 300)]);
    node.run(settings(), |node| {
        node.0.borrow_mut().used.insert("hog", 750);
        node.0.borrow_mut().event = Some(event());
    })
    .await;
    assert_eq!(
        node.decisions(),
        [("hog".to_owned(), "fentry/page_counter_try_charge")]
    );
    let node = node.0.borrow();
    let ages = node.entries.iter().filter_map(|entry| match entry {
        Entry::Decision {
            looked, decided, ..
        } => Some(clock::between(*looked, *decided)),
        _ => None,
    });
    assert!(ages.max().unwrap() < Duration::from_millis(50));
}

#[tokio::test]
async fn each_turn_tells_when_the_next_is_due_what_is_left_and_what_was_heard() {
    let node = Shared::new(&[("a", 200)]);
    let config = EngineConfig::with_thresholds(vec![hard(Signal::MemoryAvailable)]);
    let began = clock::now();
    let vitals = Arc::new(Vitals::new(began));
    let agent = node.agent(config, settings());
    let stop = async {
        node.until("the first look", |node| node.looks == 1).await;
        let left = i64::try_from(700 * MIB).unwrap() + 1;
        let told: Vec<_> = vitals.left().collect();
        assert_eq!(told, [(Signal::MemoryAvailable, left)]);
        assert!(!vitals.is_blind());
        node.0.borrow_mut().event = Some(event());
        node.until("a look for the event", |node| node.looks == 2)
            .await;
        node.0.borrow_mut().look_fails = true;
        node.0.borrow_mut().event = Some(event());
        node.until("a look that failed", |node| node.looks == 3)
            .await;
        // The event was taken, and the turn after it ends before anything else is asked.
    };
    node.go(agent.watched_by(Arc::clone(&vitals)), stop).await;
    let rung = "fentry/page_counter_try_charge";
    let heard: Vec<_> = vitals.events().collect();
    assert_eq!(heard, [(rung, Signal::MemoryAvailable, 2)]);
    assert_eq!((vitals.looks(), vitals.looks_failed()), (3, 1));
    assert!(vitals.is_blind());
    assert_eq!(vitals.left().count(), 0, "nothing is known after it failed");
    let turned = vitals.last_turn().unwrap();
    assert!(turned > began);
    assert_eq!(vitals.overdue(turned), Duration::ZERO);
    let later = Timestamp::from_nanos(turned.as_nanos() + 3_000_000_000);
    assert_eq!(
        vitals.overdue(later),
        Duration::from_secs(2),
        "it is tried again after 1 s"
    );
}

/// The heartbeat's look and the event may fall together: what the kernel said is not credited to the timer.
#[tokio::test]
async fn an_event_that_came_during_the_look_is_what_led_to_the_decision() {
    let node = Shared::new(&[("hog", 950)]);
    node.0.borrow_mut().event = Some(event());
    node.run(settings(), |_| {}).await;
    let woken_by = "fentry/page_counter_try_charge";
    assert_eq!(node.decisions(), [("hog".to_owned(), woken_by)]);
}

/// User case 32: the next one evicted while the last was still on its way out.
#[tokio::test]
async fn case_32_while_a_victim_lingers_no_second_one_is_chosen() {
    let node = Shared::new(&[("a", 450), ("b", 460)]);
    node.0.borrow_mut().lingering = u32::MAX;
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    assert_eq!(node.0.borrow().killed, ["b"]);
}

#[tokio::test]
async fn when_the_victim_is_gone_and_it_was_not_enough_the_next_one_goes_at_once() {
    let node = Shared::new(&[("a", 60), ("b", 70), ("kept", 855)]);
    node.0.borrow_mut().protected = vec!["kept"];
    node.run(settings(), |_| {}).await;
    assert_eq!(node.0.borrow().killed, ["b", "a"]);
    assert_eq!(node.decisions()[1].1, "victim-gone");
}

#[tokio::test]
async fn a_kill_that_fails_is_told_and_the_next_candidate_goes() {
    let node = Shared::new(&[("a", 400), ("b", 550)]);
    node.0.borrow_mut().unkillable = vec!["b"];
    node.run(settings(), |_| {}).await;
    assert_eq!(node.0.borrow().killed, ["a"]);
    let node = node.0.borrow();
    let told = node
        .entries
        .iter()
        .any(|e| matches!(e, Entry::KillFailed { reason, .. } if reason == "permission denied"));
    assert!(told, "{:?}", node.entries);
}

#[tokio::test]
async fn a_dry_run_decides_once_a_cycle_and_kills_nobody() {
    let node = Shared::new(&[("a", 400), ("b", 550)]);
    let dry = Settings {
        dry_run: true,
        ..settings()
    };
    node.run(dry.clone(), |_| {}).await;
    assert_eq!(node.decisions().len(), 1, "one cycle in this time");
    let often = Settings {
        interval: Duration::from_millis(50),
        ..dry
    };
    node.run(often, |_| {}).await;
    let victims: Vec<_> = node.decisions().into_iter().map(|d| d.0).collect();
    assert!((3..=6).contains(&victims.len()), "{victims:?}");
    assert!(victims.iter().all(|v| v == "b"), "{victims:?}");
    assert!(node.0.borrow().killed.is_empty());
}

#[tokio::test]
async fn a_line_crossed_while_it_was_armed_is_looked_at_again_at_once() {
    let node = Shared::new(&[("a", 200)]);
    node.0.borrow_mut().crossed_while_arming = 3;
    let mut looks = 0;
    node.run(settings(), |node| looks = node.0.borrow().looks)
        .await;
    assert!(
        looks >= 4,
        "{looks} looks in the first 40 ms, the heartbeat is a second"
    );
}

/// Extra good samples would reset soft grace periods that the kubelet lets run.
#[tokio::test]
async fn looks_that_find_nothing_new_never_reach_the_engine() {
    let node = Shared::new(&[("a", 200)]);
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    let node = node.0.borrow();
    assert!(node.looks >= 2, "the event led to a look");
    assert_eq!(node.snapshots, 1, "the first cycle alone");
    let told = node
        .entries
        .iter()
        .any(|e| matches!(e, Entry::Event { .. }));
    assert!(!told, "an event that led nowhere is no line for a person");
}

#[tokio::test]
async fn lost_events_are_told_once() {
    let node = Shared::new(&[("a", 200)]);
    node.0.borrow_mut().lost = 7;
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    let node = node.0.borrow();
    let lost: Vec<_> = node
        .entries
        .iter()
        .filter(|e| matches!(e, Entry::EventsLost { count: 7 }))
        .collect();
    assert_eq!(lost.len(), 1);
}

#[tokio::test]
async fn an_oom_kill_a_silent_hook_and_a_late_event_are_told_and_kill_nobody() {
    let node = Shared::new(&[("a", 200)]);
    node.0.borrow_mut().silent.push(SilentHook {
        signal: Signal::MemoryAvailable,
        rung: "fake",
        unseen: 1 << 30,
    });
    node.run(settings(), |node| {
        let mut node = node.0.borrow_mut();
        node.victims.push(OomVictim {
            time: clock::now(),
            pid: 7,
            cgroup: 3,
        });
        node.event = Some(PressureEvent {
            time: Timestamp::from_nanos(clock::now().as_nanos() - 1_000_000_000),
            ..event()
        });
    })
    .await;
    let node = node.0.borrow();
    let told = node.entries.iter().filter_map(|entry| match entry {
        Entry::HookSilent { hook, .. } => Some(("silent", hook.unseen.unsigned_abs())),
        Entry::OomKill { victim } => Some(("victim", victim.pid.into())),
        Entry::EventLate { event, received } => {
            let waited = clock::between(event.time, *received);
            Some(("late", waited.as_secs()))
        }
        _ => None,
    });
    let told: Vec<_> = told.collect();
    assert_eq!(told, [("silent", 1 << 30), ("victim", 7), ("late", 1)]);
    assert!(node.killed.is_empty());
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_is_told_once_and_memory_is_watched_all_the_same() {
    let node = Shared::new(&[("a", 200)]);
    node.0.borrow_mut().unread = Some("/data is gone".to_owned());
    node.run(settings(), |node| {
        node.0.borrow_mut().used.insert("hog", 750);
        node.0.borrow_mut().event = Some(event());
    })
    .await;
    let node = node.0.borrow();
    let told = node
        .entries
        .iter()
        .filter(|entry| matches!(entry, Entry::LookFailed { reason } if reason == "/data is gone"));
    assert_eq!(
        (told.count(), node.killed.as_slice()),
        (1, ["hog".to_owned()].as_slice())
    );
}

#[tokio::test]
async fn a_look_that_fails_kills_nobody_is_told_once_and_tried_again_calmly() {
    let node = Shared::new(&[("a", 950)]);
    node.0.borrow_mut().look_fails = true;
    node.run(settings(), |node| node.0.borrow_mut().event = Some(event()))
        .await;
    let node = node.0.borrow();
    assert!(node.killed.is_empty());
    let told = node
        .entries
        .iter()
        .filter(|e| matches!(e, Entry::LookFailed { .. }))
        .count();
    assert_eq!((told, node.looks), (1, 2), "at the start and at the event");
}

#[tokio::test]
async fn the_reason_of_a_decision_is_the_threshold_with_its_reading() {
    let node = Shared::new(&[("hog", 950)]);
    node.run(settings(), |_| {}).await;
    let node = node.0.borrow();
    let cause = node.entries.iter().find_map(|entry| match entry {
        Entry::Decision {
            eviction,
            wake: Wake::Start,
            ..
        } => Some(&eviction.cause),
        _ => None,
    });
    let Some(EvictionCause::Pressure {
        threshold,
        observed,
        ..
    }) = cause
    else {
        panic!("{cause:?}")
    };
    assert_eq!(threshold.signal, Signal::MemoryAvailable);
    assert_eq!(
        observed.map(|o| o.available),
        Some(i64::try_from(50 * MIB).unwrap())
    );
    assert!(Timestamp::from_nanos(0) < observed.and_then(|o| o.time).unwrap());
}

#[tokio::test]
async fn what_holds_evictions_back_is_asked_again_and_again_but_told_once() {
    let node = Shared::new(&[("hog", 950)]);
    let mut config = EngineConfig::with_thresholds(vec![hard(Signal::MemoryAvailable)]);
    config.additions.min_stall_percent = Some(10.0);
    let often = Settings {
        interval: Duration::from_millis(5),
        ..settings()
    };
    let stop = node.until("five cycles", |node| node.snapshots >= 5);
    node.run_with(config, often, stop).await;
    let is_held = |entry: &&Entry| {
        matches!(
            entry,
            Entry::Engine {
                action: Action::Held(_),
                ..
            }
        )
    };
    assert_eq!(node.0.borrow().entries.iter().filter(is_held).count(), 1);
    assert_eq!(node.decisions(), []);
}

#[tokio::test]
async fn a_limit_of_a_workloads_own_is_armed_and_once_broken_brings_a_cycle_at_once() {
    let limits = |newly_broken| {
        Some(LimitsLook {
            newly_broken,
            left: Some(7 * MIB),
            again: Duration::from_millis(5),
        })
    };
    for breaks in [false, true] {
        let node = Shared::new(&[("web", 100)]);
        node.0.borrow_mut().limits = limits(false);
        let during = |node: &Shared| node.0.borrow_mut().limits = limits(breaks);
        node.run(settings(), during).await;
        let node = node.0.borrow();
        let limit = Distance {
            left: (7 * MIB).cast_signed(),
            level: None,
        };
        assert!(node.armed.contains(&limit), "{:?}", node.armed);
        assert_eq!(node.snapshots, 1 + usize::from(breaks));
    }
}
