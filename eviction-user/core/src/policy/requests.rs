//! What a pod asks for, and what its containers may use on local disk.

use std::borrow::Cow;

use crate::model::quantity::Format;
use crate::model::{Container, Pod, Quantity, Resource, ResourceList};

pub fn memory(pod: &Pod) -> Quantity {
    request(pod, Format::BinarySi, |list| list.memory.as_ref())
}

pub fn ephemeral_storage(pod: &Pod) -> Quantity {
    request(pod, Format::BinarySi, |list| {
        list.ephemeral_storage.as_ref()
    })
}

pub fn cpu(pod: &Pod) -> Quantity {
    request(pod, Format::DecimalSi, |list| list.cpu.as_ref())
}

/// The request for what a signal measures; nobody can request inodes or processes.
pub fn of(pod: &Pod, resource: Resource) -> Quantity {
    match resource {
        Resource::Memory => memory(pod),
        Resource::EphemeralStorage => ephemeral_storage(pod),
        Resource::Inodes | Resource::Pids => Quantity::zero(),
    }
}

/// Whether any pod-level request or limit is set that the kubelet supports; containers' requests
/// then count for nothing, not even for resources the pod level does not name.
pub fn has_pod_level_resources(pod: &Pod) -> bool {
    let is_set =
        |list: &ResourceList| list.cpu.is_some() || list.memory.is_some() || list.has_hugepages;
    pod.resources
        .as_ref()
        .is_some_and(|resources| is_set(&resources.requests) || is_set(&resources.limits))
}

fn request<'a>(
    pod: &'a Pod,
    format: Format,
    of: impl Fn(&'a ResourceList) -> Option<&'a Quantity>,
) -> Quantity {
    let zero = Quantity::new(0, format);
    let request = match &pod.resources {
        Some(resources) if has_pod_level_resources(pod) => {
            of(&resources.requests).cloned().unwrap_or(zero)
        }
        _ => largest_need(pod, |container| of(&container.resources.requests)).unwrap_or(zero),
    };
    plus_overhead(request, of(&pod.overhead))
}

/// The pod's limit on local storage: `None` if no container has one. A container without a limit
/// adds nothing, so one limited container limits the whole pod.
pub fn ephemeral_storage_limit(pod: &Pod) -> Option<Quantity> {
    let limit = largest_need(pod, |container| {
        container.resources.limits.ephemeral_storage.as_ref()
    })?;
    Some(plus_overhead(
        limit,
        pod.overhead.ephemeral_storage.as_ref(),
    ))
}

/// Overhead only counts on top of something.
fn plus_overhead(amount: Quantity, overhead: Option<&Quantity>) -> Quantity {
    match overhead {
        Some(overhead) if !amount.is_zero() => amount.plus(overhead),
        _ => amount,
    }
}

/// The most that is ever needed at once: all containers with all sidecars, or an init container with
/// the sidecars started before it. `None` if nothing names an amount.
fn largest_need<'a>(
    pod: &'a Pod,
    amount: impl Fn(&'a Container) -> Option<&'a Quantity>,
) -> Option<Quantity> {
    let mut sidecars: Option<Cow<'a, Quantity>> = None;
    let mut during_init: Option<Cow<'a, Quantity>> = None;
    for container in &pod.init_containers {
        let own = amount(container).map(Cow::Borrowed);
        let need = if container.is_sidecar {
            sidecars = sum(sidecars, own);
            sidecars.clone()
        } else {
            // An init container without an amount needs nothing of its own.
            own.and_then(|own| sum(sidecars.clone(), Some(own)))
        };
        during_init = larger(during_init, need);
    }
    let running = pod.containers.iter().fold(None, |total, container| {
        sum(total, amount(container).map(Cow::Borrowed))
    });
    let running = sum(running, sidecars);
    larger(running, during_init).map(Cow::into_owned)
}

fn sum<'a>(
    a: Option<Cow<'a, Quantity>>,
    b: Option<Cow<'a, Quantity>>,
) -> Option<Cow<'a, Quantity>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(Cow::Owned(a.plus(&b))),
        (one, None) | (None, one) => one,
    }
}

fn larger<'a>(
    a: Option<Cow<'a, Quantity>>,
    b: Option<Cow<'a, Quantity>>,
) -> Option<Cow<'a, Quantity>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b > a { b } else { a }),
        (one, None) | (None, one) => one,
    }
}
