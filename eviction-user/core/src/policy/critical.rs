//! Pods the kubelet refuses to evict.

use crate::model::{Pod, annotation};

/// The priority from which on a pod is critical, whatever its class is called.
pub const CRITICAL_PRIORITY: i32 = 2_000_000_000;

/// Static, mirror, or of critical priority.
pub fn is_critical(pod: &Pod) -> bool {
    is_static(pod)
        || is_mirror(pod)
        || pod
            .priority
            .is_some_and(|priority| priority >= CRITICAL_PRIORITY)
}

/// From a source other than the API server; an empty or unknown source counts.
pub fn is_static(pod: &Pod) -> bool {
    pod.annotations
        .get(annotation::CONFIG_SOURCE)
        .is_some_and(|source| source != "api")
}

/// The API server's image of a static pod.
pub fn is_mirror(pod: &Pod) -> bool {
    pod.annotations.contains_key(annotation::CONFIG_MIRROR)
}
