//! What an eviction says: the kubelet's wording, trailing blanks included.

use std::fmt::Write as _;

use super::limit::effective;
use super::requests::has_pod_level_resources;
use crate::model::{
    Container, ContainerStats, NodeEvent, Observations, Pod, PodStats, Quantity, Resource, Signal,
    Threshold, annotation,
};

/// Reason of the pod's event and status.
pub const POD_REASON: &str = "Evicted";
/// Reason of the node's event.
pub const NODE_REASON: &str = NodeEvent::THRESHOLD_MET;

/// Text and annotations of a pressure eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub text: String,
    /// Empty if the pod has no stats, even without the starved resource.
    pub annotations: Vec<(&'static str, String)>,
}

/// `thresholds` are those that may be acted on, in order of priority; the first one about the
/// resource is quoted, which need not be the one acted on.
pub fn of_eviction<'a>(
    resource: Resource,
    pod: &Pod,
    stats: Option<&PodStats>,
    thresholds: impl IntoIterator<Item = &'a Threshold>,
    observations: &Observations,
) -> Message {
    let mut text = format!("The node was low on resource: {resource}. ");
    if let Some((quantity, available)) = quoted_threshold(resource, thresholds, observations) {
        push(
            &mut text,
            format_args!("Threshold quantity: {quantity}, available: {available}. "),
        );
    }
    let Some(stats) = stats else {
        return Message {
            text,
            annotations: Vec::new(),
        };
    };

    let mut annotations = Vec::new();
    if resource == Resource::Memory
        && let Some((usage, request)) = pod_level_memory(pod, stats)
    {
        let name = &pod.name;
        push(
            &mut text,
            format_args!(
                "Pod {name} was using {usage}, request is {request}, has larger consumption of {resource}. "
            ),
        );
        annotations.push((annotation::OFFENDING_POD, name.clone()));
        annotations.push((annotation::OFFENDING_POD_USAGE, usage.to_string()));
    }

    let mut names = Vec::new();
    let mut usages = Vec::new();
    for measured in &stats.containers {
        let Some(container) = find_container(pod, &measured.name) else {
            continue;
        };
        let Some(usage) = container_usage(measured, resource) else {
            continue;
        };
        let none = Quantity::zero();
        let request = container.resources.requests.get(resource).unwrap_or(&none);
        if usage > *request {
            let name = &container.name;
            push(
                &mut text,
                format_args!(
                    "Container {name} was using {usage}, request is {request}, has larger consumption of {resource}. "
                ),
            );
            names.push(name.clone());
            usages.push(usage.to_string());
        }
    }
    annotations.push((annotation::OFFENDING_CONTAINERS, names.join(",")));
    annotations.push((annotation::OFFENDING_CONTAINERS_USAGE, usages.join(",")));
    annotations.push((annotation::STARVED_RESOURCE, resource.to_string()));
    Message { text, annotations }
}

fn push(text: &mut String, piece: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = text.write_fmt(piece);
}

fn quoted_threshold<'a>(
    resource: Resource,
    thresholds: impl IntoIterator<Item = &'a Threshold>,
    observations: &Observations,
) -> Option<(Quantity, Quantity)> {
    thresholds
        .into_iter()
        .filter(|threshold| threshold.signal.resource() == resource)
        .find_map(|threshold| {
            let observation = observations.get(threshold.signal)?;
            let limit = effective(&threshold.limit, observation.capacity);
            Some((
                limit,
                available_quantity(threshold.signal, observation.available),
            ))
        })
}

/// Bytes print with binary suffixes, counts with decimal ones.
fn available_quantity(signal: Signal, available: i64) -> Quantity {
    match signal.resource() {
        Resource::Memory | Resource::EphemeralStorage => Quantity::binary(available),
        Resource::Inodes | Resource::Pids => Quantity::decimal(available),
    }
}

/// Usage and request of a pod with a pod-level memory request; printed without comparing the two.
fn pod_level_memory(pod: &Pod, stats: &PodStats) -> Option<(Quantity, Quantity)> {
    if !has_pod_level_resources(pod) {
        return None;
    }
    let request = pod.resources.as_ref()?.requests.memory.clone()?;
    let usage = stats.memory?.working_set.unwrap_or(0);
    Some((Quantity::binary(usage.cast_signed()), request))
}

/// Regular and init containers; others (ephemeral ones) have no request to compare with.
fn find_container<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    pod.init_containers
        .iter()
        .chain(&pod.containers)
        .find(|container| container.name == name)
}

fn container_usage(stats: &ContainerStats, resource: Resource) -> Option<Quantity> {
    let bytes = match resource {
        Resource::Memory => stats.memory?.working_set?,
        Resource::EphemeralStorage => stats.rootfs?.used?.wrapping_add(stats.logs?.used?),
        Resource::Inodes | Resource::Pids => return None,
    };
    Some(Quantity::binary(bytes.cast_signed()))
}
