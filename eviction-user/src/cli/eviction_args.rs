//! The flags with the kubelet's spelling.

use crate::config::EvictionFlags;
use clap::Args;

#[derive(Debug, Clone, Args)]
pub(super) struct EvictionArgs {
    /// When to evict at once: SIGNAL<QUANTITY or SIGNAL<PERCENT%, separated by commas. In host mode
    /// memory.available is the node's, allocatableMemory.available that of --root against its own
    /// limit, nodefs.inodesFree that of --nodefs.
    #[arg(long, value_name = "THRESHOLDS")]
    eviction_hard: Option<String>,
    /// When to evict after a grace period, written like --eviction-hard.
    #[arg(long, value_name = "THRESHOLDS")]
    eviction_soft: Option<String>,
    /// How long a soft threshold must be met: SIGNAL=DURATION, separated by commas.
    #[arg(long, value_name = "PERIODS")]
    eviction_soft_grace_period: Option<String>,
    /// How much more to free, once a threshold was met: SIGNAL=QUANTITY or SIGNAL=PERCENT%.
    #[arg(long, value_name = "AMOUNTS")]
    eviction_minimum_reclaim: Option<String>,
    /// How long a node condition outlasts its cause. [default: 5m]
    #[arg(long, value_name = "DURATION", allow_negative_numbers = true)]
    eviction_pressure_transition_period: Option<String>,
    /// Most seconds of grace for a pod that goes under a soft threshold. [default: 0]
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    eviction_max_pod_grace_period: Option<String>,
    /// A full policy cycle runs at least this often. [default: 10s]
    #[arg(long, value_name = "DURATION")]
    monitoring_interval: Option<String>,
}

impl EvictionArgs {
    pub(super) fn flags(&self) -> EvictionFlags {
        EvictionFlags {
            hard: self.eviction_hard.clone(),
            soft: self.eviction_soft.clone(),
            soft_grace: self.eviction_soft_grace_period.clone(),
            min_reclaim: self.eviction_minimum_reclaim.clone(),
            transition_period: self.eviction_pressure_transition_period.clone(),
            max_pod_grace: self.eviction_max_pod_grace_period.clone(),
            monitoring_interval: self.monitoring_interval.clone(),
        }
    }
}
