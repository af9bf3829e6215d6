//! The names of all settings that are read, as the kubelet spells them; the last ones are ours.

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
pub(super) const IMAGE_ENDPOINT: &str = "imageServiceEndpoint";
pub(super) const POD_LOGS: &str = "podLogsDir";
pub(super) const MONITORING_INTERVAL: &str = "monitoringInterval";

/// What is read of a kubelet's configuration.
pub(super) const KUBELET: [&str; 21] = [
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
    IMAGE_ENDPOINT,
    POD_LOGS,
];

pub(super) const RECLAIM_AWARE: &str = "reclaimAwareMemory";
pub(super) const SWAP_AWARE: &str = "swapAwareMemory";
pub(super) const COOL_DOWN: &str = "evictionCoolDown";
pub(super) const MAX_PER_HOUR: &str = "maxEvictionsPerHour";
pub(super) const MIN_STALL: &str = "minimumMemoryStallPercent";
pub(super) const MAX_DYING: &str = "maximumDyingCgroups";
pub(super) const MIN_VICTIM: &str = "minimumVictimSize";
pub(super) const NAMESPACES: &str = "protectedNamespaces";
pub(super) const LABELS: &str = "protectedLabels";
pub(super) const HONOR_ANNOTATIONS: &str = "honorAnnotations";

/// What only our own kind of file has.
pub(super) const OWN: [&str; 11] = [
    MONITORING_INTERVAL,
    RECLAIM_AWARE,
    SWAP_AWARE,
    COOL_DOWN,
    MAX_PER_HOUR,
    MIN_STALL,
    MAX_DYING,
    MIN_VICTIM,
    NAMESPACES,
    LABELS,
    HONOR_ANNOTATIONS,
];
