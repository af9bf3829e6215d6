//! One check per family. A check translates `in`, calls the core, and compares with `out`.

mod conditions;
mod configuration;
mod local_storage;
mod message;
mod node;
mod pods;
mod rank;
mod scenario;
mod texts;
mod thresholds;

use crate::check::Check;

/// Every family that must be there.
pub(crate) const ALL: &[(&str, Check)] = &[
    ("admit", pods::admit),
    ("by_eviction_priority", thresholds::by_eviction_priority),
    ("duration", texts::duration),
    ("eviction_message", message::eviction_message),
    ("is_critical_pod", pods::is_critical_pod),
    (
        "local_storage_eviction",
        local_storage::local_storage_eviction,
    ),
    ("memcg_threshold", node::memcg_threshold),
    ("merge_thresholds", thresholds::merge_thresholds),
    ("node_conditions", conditions::node_conditions),
    (
        "node_conditions_last_observed_at",
        conditions::last_observed_at,
    ),
    ("node_conditions_observed_since", conditions::observed_since),
    (
        "parse_threshold_config",
        configuration::parse_threshold_config,
    ),
    ("pod_qos", pods::pod_qos),
    ("pod_usage", pods::pod_usage),
    ("quantity", texts::quantity),
    ("quantity_format", texts::quantity_format),
    ("rank_by_signal", rank::by_signal),
    ("rank_disk", rank::disk),
    ("rank_memory", rank::memory),
    ("rank_pid", rank::pid),
    ("reclaim_funcs", node::reclaim_funcs),
    ("scenario", scenario::scenario),
    ("signal_observations", node::signal_observations),
    ("threshold_quantity", configuration::threshold_quantity),
    (
        "thresholds_first_observed_at",
        thresholds::first_observed_at,
    ),
    ("thresholds_met", thresholds::thresholds_met),
    ("thresholds_met_grace_period", thresholds::met_grace_period),
    ("thresholds_updated_stats", thresholds::updated_stats),
    (
        "update_containerfs_thresholds",
        configuration::update_containerfs_thresholds,
    ),
];

pub(crate) fn check_of(name: &str) -> Option<Check> {
    ALL.iter()
        .find(|(family, _)| *family == name)
        .map(|(_, check)| *check)
}
