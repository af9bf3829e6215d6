//! The flags with the kubelet's spelling. They win over every file, and a map that is given by flag
//! replaces the whole map of the files, as in the kubelet.

use super::error::{ConfigError, SettingFault};
use super::layer::Layer;
use super::origin::{Origin, Sourced};
use super::section::SignalMap;
use crate::model::Span;
use crate::policy::thresholds::flags::{self, MalformedPair};
use std::collections::BTreeMap;

/// As given on the command line; `None`: not given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EvictionFlags {
    pub hard: Option<String>,
    pub soft: Option<String>,
    pub soft_grace: Option<String>,
    pub min_reclaim: Option<String>,
    pub transition_period: Option<String>,
    pub max_pod_grace: Option<String>,
    pub monitoring_interval: Option<String>,
}

const HARD: &str = "--eviction-hard";
const SOFT: &str = "--eviction-soft";
const SOFT_GRACE: &str = "--eviction-soft-grace-period";
const MIN_RECLAIM: &str = "--eviction-minimum-reclaim";
const TRANSITION_PERIOD: &str = "--eviction-pressure-transition-period";
const MAX_POD_GRACE: &str = "--eviction-max-pod-grace-period";
const MONITORING_INTERVAL: &str = "--monitoring-interval";

/// Whose flags they are: ours, or those of the kubelet.
pub(super) type Whose = fn(&'static str) -> Origin;

type Pairs = fn(&str) -> Result<BTreeMap<String, String>, MalformedPair>;

impl EvictionFlags {
    pub(super) fn lay_over(&self, layer: &mut Layer, whose: Whose) -> Result<(), ConfigError> {
        let maps: [(&Option<String>, &'static str, Pairs, &mut Option<SignalMap>); 4] = [
            (&self.hard, HARD, flags::limits, &mut layer.hard),
            (&self.soft, SOFT, flags::limits, &mut layer.soft),
            (
                &self.soft_grace,
                SOFT_GRACE,
                flags::values,
                &mut layer.soft_grace,
            ),
            (
                &self.min_reclaim,
                MIN_RECLAIM,
                flags::values,
                &mut layer.min_reclaim,
            ),
        ];
        for (text, name, pairs, target) in maps {
            if let Some(text) = text {
                *target = Some(signal_map(text, whose(name), pairs)?);
            }
        }
        if let Some(text) = &self.transition_period {
            layer.transition_period = Some(duration(text, whose(TRANSITION_PERIOD))?);
        }
        if let Some(text) = &self.max_pod_grace {
            let origin = whose(MAX_POD_GRACE);
            let value = text.parse().map_err(|_| {
                let text = text.clone();
                ConfigError::setting(&origin, "", SettingFault::NoInteger { text })
            })?;
            layer.max_pod_grace = Some(Sourced { value, origin });
        }
        if let Some(text) = &self.monitoring_interval {
            layer.monitoring_interval = Some(duration(text, whose(MONITORING_INTERVAL))?);
        }
        Ok(())
    }
}

fn signal_map(text: &str, origin: Origin, pairs: Pairs) -> Result<SignalMap, ConfigError> {
    let texts = pairs(text)
        .map_err(|error| ConfigError::setting(&origin, "", SettingFault::Pair { error }))?;
    let entries = texts.into_iter().map(|(signal, value)| {
        let origin = origin.clone();
        (signal, Sourced { value, origin })
    });
    Ok(SignalMap {
        entries: entries.collect(),
        origin,
    })
}

fn duration(text: &str, origin: Origin) -> Result<Sourced<Span>, ConfigError> {
    let value = text
        .parse()
        .map_err(|error: crate::model::span::SpanError| ConfigError::setting(&origin, "", error))?;
    Ok(Sourced { value, origin })
}
