//! Pod annotations that the policy reads, and those an eviction event carries.

pub const CONFIG_SOURCE: &str = "kubernetes.io/config.source";
pub const CONFIG_MIRROR: &str = "kubernetes.io/config.mirror";

/// By which a pod's owner asks for something, where that is honoured.
pub const PROTECT: &str = "eviction.dev/protect";
pub const PREFER: &str = "eviction.dev/prefer";
pub const MEMORY_THRESHOLD: &str = "eviction.dev/memory-threshold";

pub const OFFENDING_CONTAINERS: &str = "offending_containers";
pub const OFFENDING_CONTAINERS_USAGE: &str = "offending_containers_usage";
pub const OFFENDING_POD: &str = "offending_pod";
pub const OFFENDING_POD_USAGE: &str = "offending_pod_usage";
pub const STARVED_RESOURCE: &str = "starved_resource";

/// Those of an eviction event.
pub const OF_EVENT: [&str; 5] = [
    OFFENDING_CONTAINERS,
    OFFENDING_CONTAINERS_USAGE,
    OFFENDING_POD,
    OFFENDING_POD_USAGE,
    STARVED_RESOURCE,
];
