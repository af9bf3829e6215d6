//! Writes settings as a file of our own kind.

use super::effective::Effective;
use super::error::ConfigError;
use super::flags::EvictionFlags;
use super::format::{OWN_API_VERSION, OWN_KIND};
use super::keys;
use super::origin::Sourced;
use crate::policy::thresholds::parse::Source;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// In the order in which they are written.
struct Pairs(Vec<(&'static str, Value)>);

impl Serialize for Pairs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// The settings could not be put into YAML.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Defaults(#[from] ConfigError),
    #[error("cannot be written as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
}

impl Effective {
    /// A file of our own kind that says the same. `evictionHard` is written whole, so that nobody has to
    /// know what is merged or dropped; of the other settings those that are not at their defaults.
    pub fn to_own_file(&self) -> Result<String, WriteError> {
        let defaults = Self::load(None, &EvictionFlags::default())?;
        let mut pairs = vec![
            (keys::API_VERSION, json!(OWN_API_VERSION)),
            (keys::KIND, json!(OWN_KIND)),
        ];
        for source in [
            Source::Hard,
            Source::Soft,
            Source::SoftGrace,
            Source::MinReclaim,
        ] {
            let entries = &self.map(source).entries;
            if source == Source::Hard || !entries.is_empty() {
                let texts = entries
                    .iter()
                    .map(|(key, text)| (key.clone(), json!(text.value)));
                pairs.push((source.key(), Value::Object(texts.collect())));
            }
        }
        pairs.extend(self.singles_unlike(&defaults));
        let additions = self.addition_settings.set().into_iter();
        pairs.extend(additions.map(|(key, value, _)| (key, value)));
        Ok(serde_saphyr::to_string(&Pairs(pairs))?)
    }

    fn singles_unlike(&self, defaults: &Self) -> impl Iterator<Item = (&'static str, Value)> {
        fn pair<T: PartialEq>(
            key: &'static str,
            (ours, defaults): (&Effective, &Effective),
            setting: impl Fn(&Effective) -> &Sourced<T>,
            write: impl FnOnce(&T) -> Value,
        ) -> Option<(&'static str, Value)> {
            let value = &setting(ours).value;
            (*value != setting(defaults).value).then(|| (key, write(value)))
        }
        let both = (self, defaults);
        // Merging is done: the hard map is whole.
        [
            pair(
                keys::TRANSITION_PERIOD,
                both,
                |e| &e.transition_period,
                text,
            ),
            pair(keys::MAX_POD_GRACE, both, |e| &e.max_pod_grace, plain),
            pair(keys::ENFORCE, both, |e| &e.enforce, plain),
            pair(keys::LOCAL_STORAGE, both, |e| &e.local_storage, plain),
            pair(
                keys::MEMCG_NOTIFICATION,
                both,
                |e| &e.memcg_notification,
                plain,
            ),
            pair(keys::IMAGE_GC_HIGH, both, |e| &e.image_gc_high, plain),
            pair(keys::IMAGE_GC_LOW, both, |e| &e.image_gc_low, plain),
            pair(keys::IMAGE_MIN_AGE, both, |e| &e.image_min_age, text),
            pair(keys::IMAGE_MAX_AGE, both, |e| &e.image_max_age, text),
            pair(keys::CGROUP_ROOT, both, |e| &e.cgroup_root, plain),
            pair(keys::CGROUP_DRIVER, both, |e| &e.cgroup_driver, plain),
            pair(keys::RUNTIME_ENDPOINT, both, |e| &e.runtime_endpoint, plain),
            pair(keys::IMAGE_ENDPOINT, both, |e| &e.image_endpoint, plain),
            pair(keys::POD_LOGS, both, |e| &e.pod_logs, plain),
            pair(
                keys::MONITORING_INTERVAL,
                both,
                |e| &e.monitoring_interval,
                text,
            ),
        ]
        .into_iter()
        .flatten()
    }
}

fn text(value: &impl ToString) -> Value {
    json!(value.to_string())
}

fn plain(value: &impl Serialize) -> Value {
    json!(value)
}
