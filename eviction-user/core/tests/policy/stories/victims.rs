//! Too many, wrong or stuck evictions (user cases, group D).

use eviction_core::model::{Action, Criterion, Exclusion, KillGrace, Outcome, Signal, annotation};
use eviction_core::policy::Settings;

use crate::fixture::{PLENTY, Story, evictions, hard, memory, parsed, pod, soft, victims, with};

fn memory_story() -> Story {
    Story::new(vec![hard(Signal::MemoryAvailable, "100")])
}

#[test]
fn case_32_while_a_victim_terminates_for_20_s_there_is_no_second_one() {
    let mut story = memory_story();
    let pods = [pod("a", 0, 300), pod("b", 0, 200)];
    assert_eq!(story.victims(0, memory(50), &pods), ["a"]);
    for at in [1, 10, 20] {
        assert_eq!(story.look(at, memory(50), &pods), []);
    }
    assert_eq!(story.gone(21, "a"), []);
    assert_eq!(story.deadline(), Some(21), "a look is due at once");
    assert_eq!(story.victims(21, memory(50), &pods[1..]), ["b"]);
}

#[test]
fn case_32_after_30_s_the_engine_goes_on_with_a_warning() {
    let mut story = memory_story();
    let pods = [pod("a", 0, 300), pod("b", 0, 200)];
    story.look(0, memory(50), &pods);
    assert_eq!(story.deadline(), Some(30));
    assert_eq!(story.look(29, memory(50), &pods), []);
    let actions = story.look(31, memory(50), &pods[1..]);
    assert!(matches!(&actions[0], Action::CleanupTimedOut(late) if late[0].as_str() == "a"));
    assert_eq!(victims(&actions), ["b"]);
}

#[test]
fn case_32_a_victim_that_never_goes_does_not_keep_the_others_safe() {
    let mut story = memory_story();
    let pods = [pod("stuck", 0, 300), pod("b", 0, 200)];
    assert_eq!(story.victims(0, memory(50), &pods), ["stuck"]);
    assert_eq!(story.victims(30, memory(50), &pods), ["b"]);
    story.gone(31, "b");
    assert_eq!(
        story.victims(31, memory(50), &pods[..1]),
        ["stuck"],
        "if nobody else is left"
    );
}

#[test]
fn case_33_a_start_below_the_threshold_still_takes_one_pod_per_fresh_look() {
    let mut story = memory_story();
    let pods = [pod("a", 0, 300), pod("b", 0, 200), pod("c", 0, 100)];
    assert_eq!(story.victims(0, memory(10), &pods), ["a"]);
    story.gone(1, "a");
    assert_eq!(story.look(1, memory(310), &pods[1..]), [], "one was enough");
}

#[test]
fn the_same_sample_never_evicts_twice() {
    let mut story = memory_story();
    let pods = [pod("a", 0, 300), pod("b", 0, 200)];
    let sample = crate::fixture::snapshot(0, memory(10), &pods);
    assert_eq!(victims(&story.look_at(0, sample.clone())), ["a"]);
    story.gone(1, "a");
    assert_eq!(
        story.look_at(2, sample),
        [],
        "read before the victim was gone"
    );
    assert_eq!(story.victims(3, memory(10), &pods[1..]), ["b"]);
}

#[test]
fn case_34_with_a_threshold_of_10_and_minimum_reclaim_of_5_percent_evictions_go_on_until_15_percent()
 {
    let thresholds = parsed(
        &[("memory.available", "10%")],
        &[("memory.available", "5%")],
    );
    let mut story = Story::new(thresholds);
    let pods = [pod("a", 0, 300), pod("b", 0, 200), pod("c", 0, 100)];
    assert_eq!(
        story.look(0, memory(149), &pods),
        [],
        "above the entry line nothing starts"
    );
    assert_eq!(story.victims(1, memory(99), &pods), ["a"]);
    story.gone(2, "a");
    assert_eq!(
        story.victims(2, memory(149), &pods[1..]),
        ["b"],
        "still below the exit line"
    );
    story.gone(3, "b");
    assert_eq!(
        story.look(3, memory(150), &pods[2..]),
        [],
        "at the exit line it ends"
    );
}

#[test]
fn case_39_static_mirror_and_critical_pods_are_passed_over_and_the_ranking_says_why() {
    let mut story = memory_story();
    let annotate = |pod, key: &str, value: &str| {
        with(pod, |pod| {
            drop(pod.annotations.insert(key.to_owned(), value.to_owned()))
        })
    };
    let pods = [
        annotate(pod("static", 0, 500), annotation::CONFIG_SOURCE, "file"),
        annotate(pod("mirror", 0, 400), annotation::CONFIG_MIRROR, ""),
        with(pod("critical", 0, 300), |pod| {
            pod.priority = Some(2_000_000_000)
        }),
        with(pod("almost", 0, 1), |pod| {
            pod.priority = Some(1_999_999_999)
        }),
    ];
    let actions = story.look(0, memory(50), &pods);
    let [eviction] = evictions(&actions)[..] else {
        panic!("one eviction: {actions:?}")
    };
    assert_eq!(eviction.uid().as_str(), "almost");
    let eviction_core::model::EvictionCause::Pressure { ranking, .. } = &eviction.cause else {
        panic!()
    };
    let outcomes: Vec<_> = ranking
        .candidates
        .iter()
        .map(|c| (c.pod.name.as_str(), c.outcome.clone()))
        .collect();
    let critical = || Outcome::Excluded(Exclusion::Critical);
    assert_eq!(
        outcomes,
        [
            ("static", critical()),
            ("mirror", critical()),
            ("almost", Outcome::Chosen),
            ("critical", critical()),
        ]
    );
}

#[test]
fn case_39_if_nobody_is_left_the_engine_reports_and_stops() {
    let mut story = memory_story();
    let pods = [with(pod("critical", 0, 300), |pod| {
        pod.priority = Some(2_000_001_000)
    })];
    let actions = story.look(0, memory(50), &pods);
    assert!(
        matches!(actions.last(), Some(Action::NoCandidate { signal: Signal::MemoryAvailable, ranking })
        if ranking.candidates.len() == 1 && ranking.victim().is_none())
    );
    assert!(story.engine.waiting().is_none());
}

#[test]
fn case_40_a_hard_threshold_leaves_one_second_and_a_soft_one_the_smaller_of_maximum_and_own_grace()
{
    let grace = |threshold, own| {
        let settings = Settings {
            max_pod_grace_secs: 60,
            ..Settings::with_thresholds(vec![threshold])
        };
        let mut story = Story::with_settings(settings);
        let pods = [with(pod("a", 0, 300), |pod| {
            pod.termination_grace_secs = own
        })];
        story.look(0, memory(50), &pods);
        let actions = story.look(30, memory(50), &pods);
        evictions(&actions).first().map(|eviction| eviction.grace)
    };
    let mut hard_story = memory_story();
    let pods = [with(pod("a", 0, 300), |pod| {
        pod.termination_grace_secs = Some(3_600)
    })];
    assert_eq!(
        evictions(&hard_story.look(0, memory(50), &pods))[0].grace,
        KillGrace(1)
    );
    let soft = || soft(Signal::MemoryAvailable, "100", 30);
    assert_eq!(grace(soft(), Some(3_600)), Some(KillGrace(60)));
    assert_eq!(grace(soft(), Some(5)), Some(KillGrace(5)));
    assert_eq!(grace(soft(), None), Some(KillGrace(60)));
}

#[test]
fn case_45_conditions_are_raised_even_where_nobody_may_be_evicted() {
    let mut story = memory_story();
    let pods = [with(pod("critical", 0, 300), |pod| {
        pod.priority = Some(2_000_000_000)
    })];
    let actions = story.look(0, memory(50), &pods);
    assert!(matches!(&actions[0], Action::Conditions(conditions) if conditions.len() == 1));
}

#[test]
fn case_27_the_ranking_tells_for_every_loser_the_key_it_lost_by() {
    let mut story = memory_story();
    let no_stats = |mut observed: eviction_core::model::ObservedPod| {
        observed.stats = None;
        observed
    };
    let pods = [
        pod("tie", 10, 300),
        pod("less", 10, 299),
        with(pod("higher", 10, 900), |pod| pod.priority = Some(1)),
        pod("within", 400, 399),
        pod("victim", 10, 300),
    ];
    let order = |pods: &[_]| {
        let look = crate::fixture::snapshot(0, memory(50), pods);
        let ranking = memory_story()
            .engine
            .preview(&look, Signal::MemoryAvailable);
        ranking
            .candidates
            .into_iter()
            .map(|c| (c.pod.name.clone(), c.outcome))
            .collect::<Vec<_>>()
    };
    let named = |name: &str, outcome| (name.to_owned(), outcome);
    assert_eq!(
        order(&pods),
        [
            named("tie", Outcome::Chosen),
            named("victim", Outcome::Tie),
            named("less", Outcome::Outranked(Criterion::OverRequest)),
            named("higher", Outcome::Outranked(Criterion::Priority)),
            named("within", Outcome::Outranked(Criterion::ExceedsRequest)),
        ]
    );
    let unknown = [pod("known", 0, 900), no_stats(pod("unknown", 900, 0))];
    assert_eq!(
        order(&unknown),
        [
            named("unknown", Outcome::Chosen),
            named("known", Outcome::Outranked(Criterion::MissingStats))
        ]
    );
    assert_eq!(story.look(0, PLENTY, &pods), []);
}

#[test]
fn for_processes_priority_goes_before_everything_else() {
    let mut story = Story::new(vec![hard(Signal::PidAvailable, "100")]);
    let forking = |uid: &str, count, priority| {
        let mut observed = with(pod(uid, 0, 0), |pod| pod.priority = Some(priority));
        observed.stats.as_mut().unwrap().process_count = Some(count);
        observed
    };
    let pods = [
        forking("bomb", 500, 1),
        forking("small", 2, 0),
        forking("smaller", 1, 0),
    ];
    let left = crate::fixture::Left { pids: 50, ..PLENTY };
    assert_eq!(story.victims(0, left, &pods), ["small"]);
}

#[test]
fn of_a_hard_and_a_soft_threshold_on_one_signal_the_hard_one_is_acted_on_whatever_their_order() {
    let limits = || {
        [
            soft(Signal::MemoryAvailable, "200", 0),
            soft(Signal::MemoryAvailable, "100", 5),
        ]
    };
    for reversed in [false, true] {
        let mut thresholds = limits();
        if reversed {
            thresholds.reverse();
        }
        let settings = Settings {
            max_pod_grace_secs: 60,
            ..Settings::with_thresholds(thresholds.into())
        };
        let mut story = Story::with_settings(settings);
        let critical = [with(pod("a", 0, 300), |pod| {
            pod.priority = Some(2_000_000_000)
        })];
        story.look(0, memory(50), &critical);
        let actions = story.look(10, memory(50), &[pod("b", 0, 300)]);
        assert_eq!(evictions(&actions)[0].grace, KillGrace(1));
    }
}
