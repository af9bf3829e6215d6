//! Another configuration: the file and flags of `eviction run`.

use super::super::Failure;
use super::super::eviction_args::EvictionArgs;
use crate::config::{Effective, EvictionFlags};
use crate::record::Change;
use clap::Args;
use std::path::PathBuf;

/// For arguments that exclude all of these.
pub(super) const FLAGS: [&str; 8] = [
    "config",
    "eviction_hard",
    "eviction_soft",
    "eviction_soft_grace_period",
    "eviction_minimum_reclaim",
    "eviction_pressure_transition_period",
    "eviction_max_pod_grace_period",
    "monitoring_interval",
];

#[derive(Debug, Args)]
#[command(next_help_heading = "Another configuration: what would have happened with")]
pub(super) struct ChangeArgs {
    /// A configuration file: our own kind, a KubeletConfiguration or a saved /configz. Files of FILE.d
    /// are laid over it; flags win over both. What neither sets is as the kubelet's defaults are.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    flags: EvictionArgs,
}

impl ChangeArgs {
    /// `None`: nothing is to be different.
    pub(super) fn checked(&self) -> Result<Option<Change>, Failure> {
        let flags = self.flags.flags();
        if flags.monitoring_interval.is_some() {
            return Err(Failure::usage(
                &"--monitoring-interval: a recording has the looks that were taken then, and no others; leave it out",
            ));
        }
        if self.config.is_none() && flags == EvictionFlags::default() {
            return Ok(None);
        }
        let usage = |e| Failure::usage(&e);
        let effective = Effective::load(self.config.as_deref(), &flags).map_err(usage)?;
        for warning in &effective.warnings {
            tracing::warn!("{warning}");
        }
        Ok(Some(Change {
            host_thresholds: effective.parse(false).map_err(usage)?,
            thresholds: effective.thresholds,
            transition_period: effective.transition_period.value,
            max_pod_grace_secs: effective.max_pod_grace.value.into(),
            memory_figure: effective.addition_settings.memory_figure(),
            additions: effective.additions,
        }))
    }
}
