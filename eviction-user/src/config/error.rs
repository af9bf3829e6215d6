//! What is wrong with a configuration, and where.

use super::host::HostError;
use super::origin::Origin;
use crate::model::quantity::QuantityError;
use crate::model::span::SpanError;
use crate::policy::thresholds::flags::MalformedPair;
use crate::policy::thresholds::parse::{Fault, ThresholdError};
use std::io;
use std::path::PathBuf;

/// Each names the file and line or the flag, and the key.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{}: {source}; name a file that exists and can be read", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{origin}: {fault}")]
    Document {
        origin: Origin,
        fault: DocumentFault,
    },
    #[error("{origin}: {}{fault}", prefix(key))]
    Setting {
        origin: Origin,
        /// Empty where the origin, a flag, says it all.
        key: String,
        fault: SettingFault,
    },
    #[error(transparent)]
    Host(#[from] HostError),
}

impl ConfigError {
    pub(super) fn setting(
        origin: &Origin,
        key: impl Into<String>,
        fault: impl Into<SettingFault>,
    ) -> Self {
        Self::Setting {
            origin: origin.clone(),
            key: key.into(),
            fault: fault.into(),
        }
    }
}

fn prefix(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("{key}: ")
    }
}

/// A file as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentFault {
    #[error("this is no valid YAML or JSON: {0}")]
    Syntax(String),
    #[error("this is no configuration: expected a map of settings, found {0}")]
    NoMap(String),
    #[error(
        "kind is missing: start the file with `apiVersion: {own_version}` and `kind: {own_kind}`, or give a KubeletConfiguration or a saved /configz",
        own_version = super::format::OWN_API_VERSION,
        own_kind = super::format::OWN_KIND
    )]
    NoKind,
    #[error("kind: {0:?} is not known; known are {own}, KubeletConfiguration", own = super::format::OWN_KIND)]
    UnknownKind(String),
    #[error("apiVersion: {found:?} is not known for kind {kind}; write {expected}")]
    UnknownVersion {
        found: String,
        kind: &'static str,
        expected: &'static str,
    },
    #[error(
        "kind: {0} is not the kubelet's: name its KubeletConfiguration or a saved /configz (our own thresholds are given by --config)"
    )]
    NotTheKubelets(&'static str),
    #[error(
        "kind: {found} does not fit: the main file is of kind {expected}, and so must its drop-ins be"
    )]
    OtherKind {
        found: &'static str,
        expected: &'static str,
    },
}

/// One setting.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingFault {
    #[error("unknown key{}", suggestion.map_or(String::new(), |key| format!("; did you mean {key}?")))]
    UnknownKey { suggestion: Option<&'static str> },
    /// In the words of the kubelet's YAML parser.
    #[error("key {key:?} already set in map (first at line {first}); remove one")]
    Duplicate { key: String, first: u64 },
    #[error("expected {expected}, found {found}")]
    WrongType {
        expected: &'static str,
        found: String,
    },
    #[error("{0}")]
    Threshold(Fault),
    #[error("{error} (at {:?})", error.piece)]
    Pair { error: MalformedPair },
    #[error(transparent)]
    Duration(#[from] SpanError),
    #[error("{0} must not be negative")]
    Negative(String),
    #[error("{text:?} is no whole number from -2147483648 to 2147483647")]
    NoInteger { text: String },
    #[error("{value} must be between 0 and 100, inclusive")]
    NoPercentage { value: i32 },
    #[error("{low} must be less than imageGCHighThresholdPercent {high}")]
    ImageGcOrder { low: i32, high: i32 },
    #[error("{found:?} is none of {known}")]
    NoChoice { found: String, known: &'static str },
    #[error("\"none\" does not go with other entries: remove it or them")]
    NoneAmongOthers,
    #[error("{0} must be between 0 and 100")]
    Percent(String),
    #[error(transparent)]
    Quantity(QuantityError),
    #[error("unknown resource{}; known are {known}", suggestion.map_or(String::new(), |name| format!(", did you mean {name}?")))]
    UnknownResource {
        suggestion: Option<&'static str>,
        known: String,
    },
    #[error("{0:?} is no label: write KEY or KEY=VALUE")]
    NoLabel(String),
    #[error("{0:?} is no cgroup's name: write it from the root of the hierarchy, as in /kubelet")]
    NoCgroup(String),
    #[error("{0:?} is no absolute path: write it as in /var/log/pods")]
    NotAbsolute(String),
    #[error("{text}: {reason}; write it as in 10s or 500ms")]
    Interval { text: String, reason: String },
}

impl From<ThresholdError> for SettingFault {
    fn from(error: ThresholdError) -> Self {
        Self::Threshold(error.fault)
    }
}
