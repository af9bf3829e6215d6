//! What one source sets: a file, a drop-in, the flags. Layers are laid over each other as the kubelet
//! does it: maps key by key, everything else as a whole.

use super::additions::AdditionSettings;
use super::error::{ConfigError, SettingFault};
use super::format::{Document, Format};
use super::keys;
use super::origin::{Origin, Sourced};
use super::section::SignalMap;
use super::warning::{Warning, WarningKind};
use crate::model::{Signal, Span};

/// `None`: not set here.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Layer {
    pub(super) hard: Option<SignalMap>,
    pub(super) soft: Option<SignalMap>,
    pub(super) soft_grace: Option<SignalMap>,
    pub(super) min_reclaim: Option<SignalMap>,
    pub(super) transition_period: Option<Sourced<Span>>,
    pub(super) max_pod_grace: Option<Sourced<i32>>,
    pub(super) merge_defaults: Option<Sourced<bool>>,
    pub(super) enforce: Option<Sourced<Vec<String>>>,
    pub(super) local_storage: Option<Sourced<bool>>,
    pub(super) memcg_notification: Option<Sourced<bool>>,
    pub(super) image_gc_high: Option<Sourced<i32>>,
    pub(super) image_gc_low: Option<Sourced<i32>>,
    pub(super) image_min_age: Option<Sourced<Span>>,
    pub(super) image_max_age: Option<Sourced<Span>>,
    pub(super) cgroup_root: Option<Sourced<String>>,
    pub(super) cgroup_driver: Option<Sourced<String>>,
    pub(super) runtime_endpoint: Option<Sourced<String>>,
    pub(super) image_endpoint: Option<Sourced<String>>,
    pub(super) pod_logs: Option<Sourced<String>>,
    pub(super) monitoring_interval: Option<Sourced<Span>>,
    pub(super) additions: AdditionSettings,
}

impl Layer {
    pub(super) fn read(
        document: &Document<'_>,
        warnings: &mut Vec<Warning>,
    ) -> Result<Self, ConfigError> {
        let Document { format, settings } = document;
        check_keys(document, warnings)?;
        let mut layer = Self {
            hard: settings.signals(keys::HARD)?,
            soft: settings.signals(keys::SOFT)?,
            soft_grace: settings.signals(keys::SOFT_GRACE)?,
            min_reclaim: settings.signals(keys::MIN_RECLAIM)?,
            transition_period: settings.duration(keys::TRANSITION_PERIOD)?,
            max_pod_grace: settings.integer(keys::MAX_POD_GRACE)?,
            merge_defaults: settings.boolean(keys::MERGE_DEFAULTS)?,
            enforce: settings.texts(keys::ENFORCE)?,
            local_storage: settings.boolean(keys::LOCAL_STORAGE)?,
            memcg_notification: settings.boolean(keys::MEMCG_NOTIFICATION)?,
            image_gc_high: settings.integer(keys::IMAGE_GC_HIGH)?,
            image_gc_low: settings.integer(keys::IMAGE_GC_LOW)?,
            image_min_age: settings.duration(keys::IMAGE_MIN_AGE)?,
            image_max_age: settings.duration(keys::IMAGE_MAX_AGE)?,
            cgroup_root: settings.text(keys::CGROUP_ROOT)?,
            cgroup_driver: settings.text(keys::CGROUP_DRIVER)?,
            runtime_endpoint: settings.text(keys::RUNTIME_ENDPOINT)?,
            image_endpoint: settings.text(keys::IMAGE_ENDPOINT)?,
            pod_logs: settings.text(keys::POD_LOGS)?,
            monitoring_interval: match format {
                Format::Own => settings.duration(keys::MONITORING_INTERVAL)?,
                Format::Kubelet | Format::Configz => None,
            },
            additions: match format {
                Format::Own => AdditionSettings::read(settings)?,
                Format::Kubelet | Format::Configz => AdditionSettings::default(),
            },
        };
        match format {
            // A file cannot say zero: the kubelet's defaulting takes it for "not set".
            Format::Kubelet => layer.drop_zeros(warnings),
            // All is filled in there, so what is missing is empty rather than left to the defaults.
            Format::Configz => layer.complete_configz(settings.keys().next().map(|(_, o)| o)),
            Format::Own => {}
        }
        Ok(layer)
    }

    fn drop_zeros(&mut self, warnings: &mut Vec<Warning>) {
        if let Some(period) = self.transition_period.take_if(|p| p.value.is_zero()) {
            warnings.push(Warning {
                origin: period.origin,
                key: keys::TRANSITION_PERIOD.to_owned(),
                kind: WarningKind::ZeroMeansDefault,
            });
        }
        self.image_min_age.take_if(|age| age.value.is_zero());
        self.cgroup_driver.take_if(|text| text.value.is_empty());
        self.runtime_endpoint.take_if(|text| text.value.is_empty());
        self.image_endpoint.take_if(|text| text.value.is_empty());
        self.pod_logs.take_if(|text| text.value.is_empty());
    }

    fn complete_configz(&mut self, place: Option<Origin>) {
        let Some(origin) = place else { return };
        let empty = || SignalMap {
            origin: origin.clone(),
            ..SignalMap::empty()
        };
        self.hard.get_or_insert_with(empty);
        self.enforce.get_or_insert_with(|| Sourced {
            value: Vec::new(),
            origin: origin.clone(),
        });
    }

    /// What `over` sets wins.
    pub(super) fn overlaid(self, over: Self) -> Self {
        Self {
            hard: merged(self.hard, over.hard),
            soft: merged(self.soft, over.soft),
            soft_grace: merged(self.soft_grace, over.soft_grace),
            min_reclaim: merged(self.min_reclaim, over.min_reclaim),
            transition_period: over.transition_period.or(self.transition_period),
            max_pod_grace: over.max_pod_grace.or(self.max_pod_grace),
            merge_defaults: over.merge_defaults.or(self.merge_defaults),
            enforce: over.enforce.or(self.enforce),
            local_storage: over.local_storage.or(self.local_storage),
            memcg_notification: over.memcg_notification.or(self.memcg_notification),
            image_gc_high: over.image_gc_high.or(self.image_gc_high),
            image_gc_low: over.image_gc_low.or(self.image_gc_low),
            image_min_age: over.image_min_age.or(self.image_min_age),
            image_max_age: over.image_max_age.or(self.image_max_age),
            cgroup_root: over.cgroup_root.or(self.cgroup_root),
            cgroup_driver: over.cgroup_driver.or(self.cgroup_driver),
            runtime_endpoint: over.runtime_endpoint.or(self.runtime_endpoint),
            image_endpoint: over.image_endpoint.or(self.image_endpoint),
            pod_logs: over.pod_logs.or(self.pod_logs),
            monitoring_interval: over.monitoring_interval.or(self.monitoring_interval),
            additions: self.additions.overlaid(over.additions),
        }
    }
}

pub(super) fn merged(below: Option<SignalMap>, over: Option<SignalMap>) -> Option<SignalMap> {
    match (below, over) {
        (Some(mut below), Some(over)) => {
            below.entries.extend(over.entries);
            // A flag replaces the map instead (see `flags`), so this is a file over a file.
            if below.origin.is_default() {
                return Some(below);
            }
            Some(SignalMap {
                origin: over.origin,
                ..below
            })
        }
        (below, over) => over.or(below),
    }
}

/// Our own kind is strict. A kubelet's file has many keys that are not about eviction, but one that
/// looks like a slip of the pen is worth a word.
fn check_keys(document: &Document<'_>, warnings: &mut Vec<Warning>) -> Result<(), ConfigError> {
    let own: &[&'static str] = if document.format == Format::Own {
        &keys::OWN
    } else {
        &[]
    };
    let known = || keys::KUBELET.iter().chain(own).copied();
    for (key, origin) in document.settings.keys() {
        if known().any(|name| name == key) {
            continue;
        }
        if document.format == Format::Own {
            let suggestion = nearest(key, known());
            return Err(ConfigError::setting(
                &origin,
                key,
                SettingFault::UnknownKey { suggestion },
            ));
        }
        let kind = if keys::OWN.contains(&key) {
            WarningKind::OnlyInOwnKind
        } else if key.parse::<Signal>().is_ok() {
            WarningKind::SignalAtTopLevel
        } else if let Some(name) = known().find(|name| name.eq_ignore_ascii_case(key)) {
            WarningKind::AlmostKnown(name)
        } else {
            continue;
        };
        warnings.push(Warning {
            origin,
            key: key.to_owned(),
            kind,
        });
    }
    Ok(())
}

pub(super) fn nearest(
    key: &str,
    known: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    const ALIKE: f64 = 0.85;
    known
        .map(|name| (strsim::jaro_winkler(name, key), name))
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}
