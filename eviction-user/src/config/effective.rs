//! The settings in force: files, drop-ins and flags laid over the defaults, and checked.

use super::additions::AdditionSettings;
use super::check;
use super::error::{ConfigError, SettingFault};
use super::files::{self, Loaded};
use super::flags::EvictionFlags;
use super::format::Format;
use super::keys;
use super::layer::Layer;
use super::origin::{Origin, Sourced};
use super::section::SignalMap;
use super::warning::Warning;
use crate::model::{Span, Threshold};
use crate::policy::additions::Additions;
use crate::policy::thresholds::defaults;
use crate::policy::thresholds::parse::{self, Source, Texts, ThresholdError, ThresholdTexts};
use std::path::Path;

/// Every setting, and where it came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// Of the main file; `None`: there is none.
    pub format: Option<Format>,
    pub hard: SignalMap,
    pub soft: SignalMap,
    pub soft_grace: SignalMap,
    pub min_reclaim: SignalMap,
    pub transition_period: Sourced<Span>,
    pub max_pod_grace: Sourced<i32>,
    pub merge_defaults: Sourced<bool>,
    pub enforce: Sourced<Vec<String>>,
    pub local_storage: Sourced<bool>,
    pub memcg_notification: Sourced<bool>,
    pub image_gc_high: Sourced<i32>,
    pub image_gc_low: Sourced<i32>,
    pub image_min_age: Sourced<Span>,
    pub image_max_age: Sourced<Span>,
    pub cgroup_root: Sourced<String>,
    pub cgroup_driver: Sourced<String>,
    pub runtime_endpoint: Sourced<String>,
    /// Where images are asked for; empty: where containers are.
    pub image_endpoint: Sourced<String>,
    pub pod_logs: Sourced<String>,
    pub monitoring_interval: Sourced<Span>,
    /// What is added to the kubelet's policy.
    pub addition_settings: AdditionSettings,
    pub additions: Additions,
    /// As the policy reads the four maps.
    pub thresholds: Vec<Threshold>,
    pub warnings: Vec<Warning>,
}

impl Effective {
    /// Reads `file` and its drop-ins, if there is one, and lays the flags over it.
    pub fn load(file: Option<&Path>, flags: &EvictionFlags) -> Result<Self, ConfigError> {
        let mut warnings = Vec::new();
        let loaded = file
            .map(|file| files::load(file, &mut warnings))
            .transpose()?;
        let (format, mut layer) = match loaded {
            Some(Loaded { format, layer }) => (Some(format), layer),
            None => (None, Layer::default()),
        };
        flags.lay_over(&mut layer, Origin::Flag)?;
        Self::of(format, layer, warnings)
    }

    /// Over the defaults, and checked. `format`: of the main file.
    pub(super) fn of(
        format: Option<Format>,
        layer: Layer,
        warnings: Vec<Warning>,
    ) -> Result<Self, ConfigError> {
        let mut effective = resolve(format, layer, warnings);
        check::values(&effective)?;
        effective.additions = effective.addition_settings.additions()?;
        effective.thresholds = effective.parse(effective.enforces_pods())?;
        let found = check::suspicious(&effective);
        effective.warnings.extend(found);
        Ok(effective)
    }

    /// Whether memory of all pods is held to the node's allocatable.
    pub fn enforces_pods(&self) -> bool {
        self.enforce.value.iter().any(|option| option == "pods")
    }

    /// The thresholds, with or without the copies for allocatable memory.
    pub fn parse(&self, enforce_pods: bool) -> Result<Vec<Threshold>, ConfigError> {
        let texts = ThresholdTexts {
            hard: texts(&self.hard),
            soft: texts(&self.soft),
            soft_grace: texts(&self.soft_grace),
            min_reclaim: texts(&self.min_reclaim),
            enforce_pods_allocatable: enforce_pods,
        };
        parse::parse(&texts).map_err(|error| self.place(error))
    }

    pub(super) fn map(&self, source: Source) -> &SignalMap {
        match source {
            Source::Hard => &self.hard,
            Source::Soft => &self.soft,
            Source::SoftGrace => &self.soft_grace,
            Source::MinReclaim => &self.min_reclaim,
        }
    }

    fn place(&self, error: ThresholdError) -> ConfigError {
        let map = self.map(error.source_map);
        let origin = map
            .entries
            .get(&error.signal)
            .map_or(&map.origin, |entry| &entry.origin);
        let key = entry_key(error.source_map, &error.signal, origin);
        ConfigError::setting(&origin.clone(), key, SettingFault::from(error))
    }
}

/// `evictionHard: memory.available`, or the signal alone where the flag's name is the key.
pub(super) fn entry_key(source: Source, signal: &str, origin: &Origin) -> String {
    if origin.is_flag() {
        signal.to_owned()
    } else {
        format!("{}: {signal}", source.key())
    }
}

/// The key of a single setting: none where a flag's name says it.
pub(super) fn single_key(key: &str, origin: &Origin) -> String {
    if origin.is_flag() {
        String::new()
    } else {
        key.to_owned()
    }
}

fn texts(map: &SignalMap) -> Texts {
    map.entries
        .iter()
        .map(|(signal, text)| (signal.clone(), text.value.clone()))
        .collect()
}

/// The kubelet's defaults below the layer (its v1beta1 defaulting, v1.36; the interval is its
/// `monitoringInterval`, which is no setting there).
fn resolve(format: Option<Format>, layer: Layer, warnings: Vec<Warning>) -> Effective {
    fn or<T>(given: Option<Sourced<T>>, default: T) -> Sourced<T> {
        given.unwrap_or_else(|| Sourced::default_of(default))
    }
    let merge_defaults = or(layer.merge_defaults, false);
    let mut hard = layer.hard.unwrap_or_else(files::default_hard);
    // Defaults are merged when the file is loaded; a flag replaces the result.
    if merge_defaults.value && !hard.origin.is_flag() {
        for (signal, limit) in defaults::HARD {
            hard.entries
                .entry(signal.to_owned())
                .or_insert_with(|| Sourced {
                    value: limit.to_owned(),
                    origin: Origin::MergedDefault,
                });
        }
    }
    Effective {
        format,
        hard,
        soft: layer.soft.unwrap_or_else(SignalMap::empty),
        soft_grace: layer.soft_grace.unwrap_or_else(SignalMap::empty),
        min_reclaim: layer.min_reclaim.unwrap_or_else(SignalMap::empty),
        transition_period: or(layer.transition_period, Span::from_secs(300)),
        max_pod_grace: or(layer.max_pod_grace, 0),
        merge_defaults,
        enforce: or(layer.enforce, vec!["pods".to_owned()]),
        local_storage: or(layer.local_storage, true),
        memcg_notification: or(layer.memcg_notification, false),
        image_gc_high: or(layer.image_gc_high, 85),
        image_gc_low: or(layer.image_gc_low, 80),
        image_min_age: or(layer.image_min_age, Span::from_secs(120)),
        image_max_age: or(layer.image_max_age, Span::ZERO),
        cgroup_root: or(layer.cgroup_root, String::new()),
        cgroup_driver: or(layer.cgroup_driver, "cgroupfs".to_owned()),
        runtime_endpoint: or(
            layer.runtime_endpoint,
            "unix:///run/containerd/containerd.sock".to_owned(),
        ),
        image_endpoint: or(layer.image_endpoint, String::new()),
        pod_logs: or(layer.pod_logs, "/var/log/pods".to_owned()),
        monitoring_interval: or(layer.monitoring_interval, Span::from_secs(10)),
        addition_settings: layer.additions,
        additions: Additions::default(),
        thresholds: Vec::new(),
        warnings,
    }
}

impl Effective {
    /// The settings that are one value, as texts: key, value, where it came from.
    pub(super) fn singles(&self) -> Vec<(&'static str, String, &Origin)> {
        fn row<'a, T>(
            key: &'static str,
            from: &'a Sourced<T>,
            text: impl FnOnce(&T) -> String,
        ) -> (&'static str, String, &'a Origin) {
            (key, text(&from.value), &from.origin)
        }
        vec![
            row(
                keys::TRANSITION_PERIOD,
                &self.transition_period,
                Span::to_string,
            ),
            row(keys::MAX_POD_GRACE, &self.max_pod_grace, i32::to_string),
            row(keys::MERGE_DEFAULTS, &self.merge_defaults, bool::to_string),
            row(keys::ENFORCE, &self.enforce, |list| list.join(", ")),
            row(keys::LOCAL_STORAGE, &self.local_storage, bool::to_string),
            row(
                keys::MEMCG_NOTIFICATION,
                &self.memcg_notification,
                bool::to_string,
            ),
            row(keys::IMAGE_GC_HIGH, &self.image_gc_high, i32::to_string),
            row(keys::IMAGE_GC_LOW, &self.image_gc_low, i32::to_string),
            row(keys::IMAGE_MIN_AGE, &self.image_min_age, Span::to_string),
            row(keys::IMAGE_MAX_AGE, &self.image_max_age, Span::to_string),
            row(keys::CGROUP_ROOT, &self.cgroup_root, String::clone),
            row(keys::CGROUP_DRIVER, &self.cgroup_driver, String::clone),
            row(
                keys::RUNTIME_ENDPOINT,
                &self.runtime_endpoint,
                String::clone,
            ),
            row(keys::IMAGE_ENDPOINT, &self.image_endpoint, String::clone),
            row(keys::POD_LOGS, &self.pod_logs, String::clone),
            row(
                keys::MONITORING_INTERVAL,
                &self.monitoring_interval,
                Span::to_string,
            ),
        ]
    }

    /// All settings as texts, one row for each entry of the four maps; additions only where they are set.
    pub fn rows(&self) -> Vec<Row> {
        let sources = [
            Source::Hard,
            Source::Soft,
            Source::SoftGrace,
            Source::MinReclaim,
        ];
        let entries = sources.into_iter().flat_map(|source| {
            let map = self.map(source);
            let none = map.entries.is_empty().then(|| Row {
                key: source.key().to_owned(),
                value: "none".to_owned(),
                source: map.origin.to_string(),
            });
            let entries = map.entries.iter().map(move |(signal, text)| Row {
                key: format!("{}.{signal}", source.key()),
                value: text.value.clone(),
                source: text.origin.to_string(),
            });
            none.into_iter().chain(entries)
        });
        let singles = self.singles().into_iter().map(|(key, value, origin)| Row {
            key: key.to_owned(),
            value,
            source: origin.to_string(),
        });
        let additions = self.addition_settings.set().into_iter();
        let additions = additions.map(|(key, value, origin)| Row {
            key: key.to_owned(),
            // A text as it is, everything else as JSON, which is YAML too.
            value: value.as_str().map_or(value.to_string(), str::to_owned),
            source: origin.to_string(),
        });
        entries.chain(singles).chain(additions).collect()
    }
}

/// A line of `eviction config effective`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Row {
    pub key: String,
    pub value: String,
    pub source: String,
}
