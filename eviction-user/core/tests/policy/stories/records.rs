//! What an eviction leaves behind (user case 51).

use eviction_core::model::{
    EvictionCause, MemoryStats, Observation, ObservedPod, Resource, ResourceList, Resources,
    Signal, Timestamp, annotation,
};
use eviction_core::policy::message;

use crate::fixture::{Story, evictions, hard, memory, pod};

#[test]
fn case_51_an_eviction_names_signal_threshold_observed_value_usage_and_request() {
    let mut story = Story::new(vec![hard(Signal::MemoryAvailable, "100")]);
    let mut hog = pod("hog", 10, 300);
    let stats = hog.stats.as_mut().unwrap();
    stats.containers = vec![eviction_core::model::ContainerStats {
        name: "hog".to_owned(),
        memory: stats.memory,
        ..Default::default()
    }];
    let actions = story.look(7, memory(50), &[hog]);
    let [eviction] = evictions(&actions)[..] else {
        panic!("one eviction: {actions:?}")
    };
    assert_eq!(
        eviction.message,
        "The node was low on resource: memory. Threshold quantity: 100, available: 50. \
         Container hog was using 300, request is 10, has larger consumption of memory. "
    );
    assert_eq!(
        eviction.annotations,
        [
            (annotation::OFFENDING_CONTAINERS, "hog".to_owned()),
            (annotation::OFFENDING_CONTAINERS_USAGE, "300".to_owned()),
            (annotation::STARVED_RESOURCE, "memory".to_owned()),
        ]
    );
    assert!(eviction.disruption_condition);
    assert_eq!(eviction.cause.metric_label(), "memory.available");
    let EvictionCause::Pressure {
        resource,
        threshold,
        observed,
        ranking,
    } = &eviction.cause
    else {
        panic!()
    };
    assert_eq!(
        (*resource, threshold.signal),
        (Resource::Memory, Signal::MemoryAvailable)
    );
    let time = Some(Timestamp::from_secs(7));
    assert_eq!(
        *observed,
        Some(Observation {
            available: 50,
            capacity: 1_000,
            time
        })
    );
    let victim = ranking.victim().unwrap();
    assert_eq!(
        (victim.key.usage, victim.key.request_nanos),
        (300, 10_000_000_000)
    );
}

#[test]
fn a_message_for_a_pod_without_stats_has_no_annotations_at_all() {
    let hog = pod("hog", 10, 300);
    let plain = message::of_eviction(Resource::Memory, &hog.pod, None, [], &Default::default());
    assert_eq!(plain.text, "The node was low on resource: memory. ");
    assert!(plain.annotations.is_empty());
}

#[test]
fn a_pod_with_a_request_of_its_own_is_named_even_below_it_and_without_a_working_set() {
    let mut hog = crate::fixture::with(pod("hog", 0, 0), |pod| {
        let requests = ResourceList::of_memory(500);
        pod.resources = Some(Resources {
            requests,
            ..Resources::default()
        });
    });
    let text = |hog: &ObservedPod| {
        message::of_eviction(
            Resource::Memory,
            &hog.pod,
            hog.stats.as_ref(),
            [],
            &Default::default(),
        )
        .text
    };
    let expected = "The node was low on resource: memory. \
                    Pod hog was using 0, request is 500, has larger consumption of memory. ";
    assert_eq!(text(&hog), expected);
    hog.stats.as_mut().unwrap().memory = Some(MemoryStats::default());
    assert_eq!(
        text(&hog),
        expected,
        "an unknown working set counts as zero"
    );
    hog.stats.as_mut().unwrap().memory = None;
    assert_eq!(text(&hog), "The node was low on resource: memory. ");
}
