//! The names of all settings that are read, as the kubelet spells them; the last is ours.

pub(super) const API_VERSION: &str = "apiVersion";
pub(super) const KIND: &str = "kind";

pub(super) const HARD: &str = "evictionHard";
pub(super) const SOFT: &str = "evictionSoft";
pub(super) const SOFT_GRACE: &str = "evictionSoftGracePeriod";
pub(super) const MIN_RECLAIM: &str = "evictionMinimumReclaim";
pub(super) const TRANSITION_PERIOD: &str = "evictionPressureTransitionPeriod";
pub(super) const MAX_POD_GRACE: &str = "evictionMaxPodGracePeriod";
pub(super) const MERGE_DEFAULTS: &str = "mergeDefaultEvictionSettings";
pub(super) const ENFORCE: &str = "enforceNodeAllocatable";
pub(super) const LOCAL_STORAGE: &str = "localStorageCapacityIsolation";
pub(super) const MEMCG_NOTIFICATION: &str = "kernelMemcgNotification";
pub(super) const IMAGE_GC_HIGH: &str = "imageGCHighThresholdPercent";
pub(super) const IMAGE_GC_LOW: &str = "imageGCLowThresholdPercent";
pub(super) const IMAGE_MIN_AGE: &str = "imageMinimumGCAge";
pub(super) const IMAGE_MAX_AGE: &str = "imageMaximumGCAge";
pub(super) const CGROUP_ROOT: &str = "cgroupRoot";
pub(super) const CGROUP_DRIVER: &str = "cgroupDriver";
pub(super) const RUNTIME_ENDPOINT: &str = "containerRuntimeEndpoint";
pub(super) const MONITORING_INTERVAL: &str = "monitoringInterval";

/// What is read of a kubelet's configuration.
pub(super) const KUBELET: [&str; 19] = [
    API_VERSION,
    KIND,
    HARD,
    SOFT,
    SOFT_GRACE,
    MIN_RECLAIM,
    TRANSITION_PERIOD,
    MAX_POD_GRACE,
    MERGE_DEFAULTS,
    ENFORCE,
    LOCAL_STORAGE,
    MEMCG_NOTIFICATION,
    IMAGE_GC_HIGH,
    IMAGE_GC_LOW,
    IMAGE_MIN_AGE,
    IMAGE_MAX_AGE,
    CGROUP_ROOT,
    CGROUP_DRIVER,
    RUNTIME_ENDPOINT,
];

/// What only our own kind of file has.
pub(super) const OWN: [&str; 1] = [MONITORING_INTERVAL];
