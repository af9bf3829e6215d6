//! One map of settings, read key by key with the type that each must have.

use super::error::{ConfigError, SettingFault};
use super::origin::{Origin, Sourced};
use super::yaml::{Entry, Node};
use crate::model::Span;
use std::collections::BTreeMap;

pub(super) struct Section<'a> {
    entries: &'a [Entry],
    place: &'a dyn Fn(u64) -> Origin,
}

/// Texts by signal name, each with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalMap {
    /// Of the map as a whole.
    pub origin: Origin,
    pub entries: BTreeMap<String, Sourced<String>>,
}

impl SignalMap {
    pub(super) fn empty() -> Self {
        Self {
            origin: Origin::Default,
            entries: BTreeMap::new(),
        }
    }
}

type Read<T> = Result<Option<Sourced<T>>, ConfigError>;

impl<'a> Section<'a> {
    pub(super) fn new(entries: &'a [Entry], place: &'a dyn Fn(u64) -> Origin) -> Self {
        Self { entries, place }
    }

    /// Every key and where it stands.
    pub(super) fn keys(&self) -> impl Iterator<Item = (&'a str, Origin)> + '_ {
        self.entries
            .iter()
            .map(|entry| (entry.key.as_str(), (self.place)(entry.line)))
    }

    pub(super) fn text(&self, key: &str) -> Read<String> {
        self.read(key, "a text", |node| match node {
            Node::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    pub(super) fn boolean(&self, key: &str) -> Read<bool> {
        self.read(key, "true or false", |node| match node {
            Node::Bool(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn integer(&self, key: &str) -> Read<i32> {
        let read = self.read(key, "a whole number", |node| match node {
            Node::Integer(value) => Some(*value),
            _ => None,
        })?;
        read.map(|found| {
            let value = i32::try_from(found.value).map_err(|_| {
                let text = found.value.to_string();
                ConfigError::setting(&found.origin, key, SettingFault::NoInteger { text })
            })?;
            Ok(Sourced {
                value,
                origin: found.origin,
            })
        })
        .transpose()
    }

    /// In Go's spelling, as in `1m30s`.
    pub(super) fn duration(&self, key: &str) -> Read<Span> {
        let expected = "a duration as in \"5m0s\"";
        let read = self.read(key, expected, |node| match node {
            Node::Text(text) => Some(text.clone()),
            _ => None,
        })?;
        read.map(|found| {
            let value = found
                .value
                .parse::<Span>()
                .map_err(|error| ConfigError::setting(&found.origin, key, error))?;
            Ok(Sourced {
                value,
                origin: found.origin,
            })
        })
        .transpose()
    }

    pub(super) fn texts(&self, key: &str) -> Read<Vec<String>> {
        self.read(key, "a list of texts", |node| match node {
            Node::List(items) => items
                .iter()
                .map(|item| match item {
                    Node::Text(text) => Some(text.clone()),
                    _ => None,
                })
                .collect(),
            _ => None,
        })
    }

    /// With or without a fraction.
    pub(super) fn number(&self, key: &str) -> Read<f64> {
        self.read(key, "a number", |node| match node {
            Node::Integer(value) => Some(*value as f64),
            Node::Number(value) => Some(*value),
            _ => None,
        })
    }

    pub(super) fn signals(&self, key: &str) -> Result<Option<SignalMap>, ConfigError> {
        self.texts_by_key(key, "a map of signals, as in {memory.available: 100Mi}")
    }

    /// Like the kubelet, takes only texts: `10%` and `100Mi` are, a bare `5` is not.
    pub(super) fn texts_by_key(
        &self,
        key: &str,
        expected: &'static str,
    ) -> Result<Option<SignalMap>, ConfigError> {
        let read = self.read(key, expected, |node| match node {
            Node::Map(entries) => Some(entries),
            _ => None,
        })?;
        let Some(found) = read else { return Ok(None) };
        let entry = |entry: &Entry| {
            let origin = (self.place)(entry.line);
            let value = match &entry.value {
                Node::Text(text) => text.clone(),
                // The kubelet's decoder makes an empty text of it, and its parser then says so.
                Node::Null => String::new(),
                other => {
                    let fault = SettingFault::WrongType {
                        expected: "a text (put it in quotes)",
                        found: other.describe(),
                    };
                    return Err(ConfigError::setting(
                        &origin,
                        format!("{key}: {}", entry.key),
                        fault,
                    ));
                }
            };
            Ok((entry.key.clone(), Sourced { value, origin }))
        };
        let entries = found.value.iter().map(entry).collect::<Result<_, _>>()?;
        Ok(Some(SignalMap {
            origin: found.origin,
            entries,
        }))
    }

    /// Nothing after a key is the same as no key.
    fn read<T>(
        &self,
        key: &str,
        expected: &'static str,
        convert: impl FnOnce(&'a Node) -> Option<T>,
    ) -> Read<T> {
        let Some(entry) = self
            .entries
            .iter()
            .find(|entry| entry.key == key && entry.value != Node::Null)
        else {
            return Ok(None);
        };
        let origin = (self.place)(entry.line);
        let Some(value) = convert(&entry.value) else {
            let found = entry.value.describe();
            let fault = SettingFault::WrongType { expected, found };
            return Err(ConfigError::setting(&origin, key, fault));
        };
        Ok(Some(Sourced { value, origin }))
    }
}
