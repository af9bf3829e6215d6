//! The settings of what we add to the kubelet's policy: only our own kind of file has them, and none is
//! in force unless it is set.

use super::error::{ConfigError, SettingFault};
use super::keys;
use super::layer::{merged, nearest};
use super::origin::{Origin, Sourced};
use super::section::{Section, SignalMap};
use crate::model::{Quantity, Span};
use crate::policy::additions::Additions;
use crate::policy::additions::memory_figure::MemoryFigure;
use crate::policy::additions::protection::{LabelRule, ProtectionRules};
use crate::policy::additions::victim_size::MinVictimSize;
use serde_json::{Value, json};

/// `None`: not set.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AdditionSettings {
    pub reclaim_aware: Option<Sourced<bool>>,
    pub swap_aware: Option<Sourced<bool>>,
    pub cool_down: Option<Sourced<Span>>,
    pub max_per_hour: Option<Sourced<i32>>,
    /// Percent of the last ten seconds.
    pub min_stall: Option<Sourced<f64>>,
    pub max_dying_cgroups: Option<Sourced<i32>>,
    /// By the names of [`RESOURCES`].
    pub min_victim_size: Option<SignalMap>,
    pub namespaces: Option<Sourced<Vec<String>>>,
    pub labels: Option<Sourced<Vec<String>>>,
    pub honor_annotations: Option<Sourced<bool>>,
}

/// The keys of `minimumVictimSize`.
const RESOURCES: [&str; 4] = ["memory", "disk", "inodes", "processes"];

impl AdditionSettings {
    pub(super) fn read(settings: &Section<'_>) -> Result<Self, ConfigError> {
        let expected = "a map of resources, as in {memory: 64Mi, inodes: \"1000\"}";
        Ok(Self {
            reclaim_aware: settings.boolean(keys::RECLAIM_AWARE)?,
            swap_aware: settings.boolean(keys::SWAP_AWARE)?,
            cool_down: settings.duration(keys::COOL_DOWN)?,
            max_per_hour: settings.integer(keys::MAX_PER_HOUR)?,
            min_stall: settings.number(keys::MIN_STALL)?,
            max_dying_cgroups: settings.integer(keys::MAX_DYING)?,
            min_victim_size: settings.texts_by_key(keys::MIN_VICTIM, expected)?,
            namespaces: settings.texts(keys::NAMESPACES)?,
            labels: settings.texts(keys::LABELS)?,
            honor_annotations: settings.boolean(keys::HONOR_ANNOTATIONS)?,
        })
    }

    /// What `over` sets wins.
    pub(super) fn overlaid(self, over: Self) -> Self {
        Self {
            reclaim_aware: over.reclaim_aware.or(self.reclaim_aware),
            swap_aware: over.swap_aware.or(self.swap_aware),
            cool_down: over.cool_down.or(self.cool_down),
            max_per_hour: over.max_per_hour.or(self.max_per_hour),
            min_stall: over.min_stall.or(self.min_stall),
            max_dying_cgroups: over.max_dying_cgroups.or(self.max_dying_cgroups),
            min_victim_size: merged(self.min_victim_size, over.min_victim_size),
            namespaces: over.namespaces.or(self.namespaces),
            labels: over.labels.or(self.labels),
            honor_annotations: over.honor_annotations.or(self.honor_annotations),
        }
    }

    pub fn memory_figure(&self) -> MemoryFigure {
        MemoryFigure {
            with_reclaimable_cache: is_on(&self.reclaim_aware),
            with_free_swap: is_on(&self.swap_aware),
        }
    }

    /// As the policy takes them, or what is wrong.
    pub fn additions(&self) -> Result<Additions, ConfigError> {
        Ok(Additions {
            protection: ProtectionRules {
                own_pod: None,
                namespaces: self.values(&self.namespaces).cloned().collect(),
                labels: self.label_rules()?,
            },
            min_victim_size: self.victim_size()?,
            cool_down: self.positive_cool_down()?,
            max_per_hour: count(keys::MAX_PER_HOUR, &self.max_per_hour)?,
            min_stall_percent: self.stall_percent()?,
            max_dying_cgroups: count(keys::MAX_DYING, &self.max_dying_cgroups)?,
            honor_annotations: is_on(&self.honor_annotations),
            ..Additions::default()
        })
    }

    fn values<'a>(
        &'a self,
        list: &'a Option<Sourced<Vec<String>>>,
    ) -> impl Iterator<Item = &'a String> {
        list.iter().flat_map(|list| &list.value)
    }

    fn label_rules<T: FromIterator<LabelRule>>(&self) -> Result<T, ConfigError> {
        let Some(labels) = &self.labels else {
            return Ok(std::iter::empty().collect());
        };
        let rule = |text: &String| {
            let (key, value) = match text.split_once('=') {
                Some((key, value)) => (key, Some(value.to_owned())),
                None => (text.as_str(), None),
            };
            if key.is_empty() {
                let fault = SettingFault::NoLabel(text.clone());
                return Err(ConfigError::setting(&labels.origin, keys::LABELS, fault));
            }
            let key = key.to_owned();
            Ok(LabelRule { key, value })
        };
        labels.value.iter().map(rule).collect()
    }

    fn victim_size(&self) -> Result<MinVictimSize, ConfigError> {
        let mut least = MinVictimSize::default();
        for (resource, text) in self.min_victim_size.iter().flat_map(|map| &map.entries) {
            let place = format!("{}: {resource}", keys::MIN_VICTIM);
            let wrong = |fault| ConfigError::setting(&text.origin, place.clone(), fault);
            let target = match resource.as_str() {
                "memory" => &mut least.memory,
                "disk" => &mut least.disk_bytes,
                "inodes" => &mut least.inodes,
                "processes" => &mut least.processes,
                other => {
                    let suggestion = nearest(other, RESOURCES.into_iter());
                    return Err(wrong(SettingFault::UnknownResource {
                        suggestion,
                        known: RESOURCES.join(", "),
                    }));
                }
            };
            let quantity = text.value.parse::<Quantity>();
            let size = quantity.map_err(|error| wrong(SettingFault::Quantity(error)))?;
            let size = u64::try_from(size.value())
                .map_err(|_| wrong(SettingFault::Negative(text.value.clone())))?;
            *target = Some(size);
        }
        Ok(least)
    }

    fn positive_cool_down(&self) -> Result<Option<Span>, ConfigError> {
        let Some(period) = &self.cool_down else {
            return Ok(None);
        };
        if period.value.is_negative() {
            let fault = SettingFault::Negative(period.value.to_string());
            return Err(ConfigError::setting(&period.origin, keys::COOL_DOWN, fault));
        }
        Ok(Some(period.value).filter(|period| !period.is_zero()))
    }

    fn stall_percent(&self) -> Result<Option<f32>, ConfigError> {
        let Some(percent) = &self.min_stall else {
            return Ok(None);
        };
        if !(0.0..=100.0).contains(&percent.value) {
            let fault = SettingFault::Percent(percent.value.to_string());
            return Err(ConfigError::setting(
                &percent.origin,
                keys::MIN_STALL,
                fault,
            ));
        }
        // Two digits are measured: 32 bits are plenty. Zero asks for nothing.
        Ok(Some(percent.value as f32).filter(|percent| *percent > 0.0))
    }

    /// Key, value as it would be written in a file, and where it came from; nothing for what is not set.
    pub(super) fn set(&self) -> Vec<(&'static str, Value, &Origin)> {
        fn one<'a, T: serde::Serialize>(
            key: &'static str,
            setting: &'a Option<Sourced<T>>,
        ) -> Option<(&'static str, Value, &'a Origin)> {
            let setting = setting.as_ref()?;
            Some((key, json!(setting.value), &setting.origin))
        }
        let cool_down = self.cool_down.as_ref();
        let sizes = self.min_victim_size.as_ref().map(|map| {
            let entries = map.entries.iter();
            let texts = entries.map(|(resource, text)| (resource.clone(), json!(text.value)));
            (
                keys::MIN_VICTIM,
                Value::Object(texts.collect()),
                &map.origin,
            )
        });
        [
            one(keys::RECLAIM_AWARE, &self.reclaim_aware),
            one(keys::SWAP_AWARE, &self.swap_aware),
            cool_down.map(|c| (keys::COOL_DOWN, json!(c.value.to_string()), &c.origin)),
            one(keys::MAX_PER_HOUR, &self.max_per_hour),
            one(keys::MIN_STALL, &self.min_stall),
            one(keys::MAX_DYING, &self.max_dying_cgroups),
            sizes,
            one(keys::NAMESPACES, &self.namespaces),
            one(keys::LABELS, &self.labels),
            one(keys::HONOR_ANNOTATIONS, &self.honor_annotations),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// The settings that are about pods: a host's workloads have neither namespaces nor labels.
    pub(super) fn of_pods_only(&self) -> impl Iterator<Item = (&'static str, &Origin)> {
        let lists = [
            (keys::NAMESPACES, &self.namespaces),
            (keys::LABELS, &self.labels),
        ];
        let annotations = self.honor_annotations.iter();
        lists
            .into_iter()
            .filter_map(|(key, list)| Some((key, &list.as_ref()?.origin)))
            .chain(annotations.map(|switch| (keys::HONOR_ANNOTATIONS, &switch.origin)))
    }
}

fn is_on(switch: &Option<Sourced<bool>>) -> bool {
    switch.as_ref().is_some_and(|switch| switch.value)
}

fn count<T: TryFrom<i32>>(
    key: &'static str,
    setting: &Option<Sourced<i32>>,
) -> Result<Option<T>, ConfigError> {
    let Some(setting) = setting else {
        return Ok(None);
    };
    match T::try_from(setting.value) {
        Ok(value) => Ok(Some(value)),
        Err(_) => {
            let fault = SettingFault::Negative(setting.value.to_string());
            Err(ConfigError::setting(&setting.origin, key, fault))
        }
    }
}
