//! Numbers that mislead (user cases, group B, and 7).

use eviction_core::model::{Condition, Limit, Signal, Threshold};
use eviction_core::policy::Settings;
use eviction_core::policy::additions::memory_figure::MemoryFigure;

use crate::fixture::{
    Left, PLENTY, Story, disk_pod, evictions, hard, memory, pod, snapshot, victims,
};

fn engine_with(figure: MemoryFigure) -> Story {
    let thresholds = vec![hard(Signal::MemoryAvailable, "100")];
    Story::with_settings(Settings {
        memory_figure: figure,
        ..Settings::with_thresholds(thresholds)
    })
}

fn node_full_of_cache() -> eviction_core::model::Snapshot {
    let mut look = snapshot(0, memory(50), &[pod("reader", 0, 20)]);
    look.summary.reclaimable_cache = Some(600);
    look
}

#[test]
fn case_14_and_15_a_node_full_of_cache_evicts_in_kubelet_mode_and_not_in_reclaim_aware_mode() {
    let mut kubelet = engine_with(MemoryFigure::KUBELET);
    assert_eq!(
        victims(&kubelet.look_at(0, node_full_of_cache())),
        ["reader"]
    );

    let reclaim_aware = MemoryFigure {
        with_reclaimable_cache: true,
        ..MemoryFigure::KUBELET
    };
    let mut aware = engine_with(reclaim_aware);
    assert_eq!(aware.look_at(0, node_full_of_cache()), []);
    assert_eq!(aware.engine.conditions(), []);
}

#[test]
fn case_7_free_swap_delays_eviction_only_if_the_setting_counts_it() {
    let swapping = || {
        let mut look = snapshot(0, memory(50), &[pod("a", 0, 20)]);
        look.summary.swap_free = Some(400);
        look
    };
    assert_eq!(
        victims(&engine_with(MemoryFigure::KUBELET).look_at(0, swapping())),
        ["a"]
    );
    let with_swap = MemoryFigure {
        with_free_swap: true,
        ..MemoryFigure::KUBELET
    };
    assert_eq!(engine_with(with_swap).look_at(0, swapping()), []);
}

#[test]
fn case_16_available_is_limit_minus_working_set_and_percentages_are_of_their_sum() {
    // 200 + 800: a quarter of it is met, a fifth is not.
    let mut quarter = Story::new(vec![Threshold::hard(
        Signal::MemoryAvailable,
        Limit::Percentage(0.25),
    )]);
    assert_eq!(quarter.victims(0, memory(200), &[pod("a", 0, 1)]), ["a"]);
    let mut fifth = Story::new(vec![Threshold::hard(
        Signal::MemoryAvailable,
        Limit::Percentage(0.2),
    )]);
    assert_eq!(fifth.look(0, memory(200), &[pod("a", 0, 1)]), []);
}

#[test]
fn case_19_stall_alone_evicts_nobody() {
    let mut story = Story::new(vec![hard(Signal::MemoryAvailable, "100")]);
    let mut look = snapshot(0, PLENTY, &[pod("a", 0, 20)]);
    look.summary.memory_stall_percent = Some(80.0);
    assert_eq!(story.look_at(0, look), []);
}

#[test]
fn case_20_disk_pressure_names_the_file_system_that_is_short() {
    let mut story = Story::new(vec![
        hard(Signal::NodeFsAvailable, "100"),
        hard(Signal::ImageFsAvailable, "100"),
    ]);
    story.look(
        0,
        Left {
            images: 40,
            ..PLENTY
        },
        &[disk_pod("a", 1, 1)],
    );
    let actions = story.reclaimed(
        1,
        Some(Left {
            images: 40,
            ..PLENTY
        }),
    );
    let [eviction] = evictions(&actions)[..] else {
        panic!("one eviction: {actions:?}")
    };
    let eviction_core::model::EvictionCause::Pressure {
        threshold,
        observed,
        ..
    } = &eviction.cause
    else {
        panic!("pressure: {eviction:?}")
    };
    assert_eq!(threshold.signal, Signal::ImageFsAvailable);
    assert_eq!(observed.unwrap().available, 40);
    assert_eq!(story.engine.conditions(), [Condition::DiskPressure]);
}
