//! A pod, or in host mode a workload dressed as one.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::resources::{ResourceList, Resources};
use super::volume::Volume;

/// Identity of a pod; in host mode a text that the inventory chooses. Cheap to copy around.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Uid(Arc<str>);

impl Uid {
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Borrow<str> for Uid {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Why the caller asks that a workload never be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Protection {
    /// We run in it.
    OwnPod,
    /// Named by the configuration, e.g. a namespace, label or unit pattern; the text says which.
    Configured(String),
    /// The inventory cannot tell what it is, so nobody may kill it.
    Unmapped,
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnPod => f.write_str("our own pod"),
            Self::Configured(rule) => write!(f, "protected by {rule}"),
            Self::Unmapped => f.write_str("not mapped to a workload"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pod {
    pub uid: Uid,
    pub name: String,
    pub namespace: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub priority: Option<i32>,
    pub termination_grace_secs: Option<i64>,
    /// `status.qosClass`, if the API server has set it.
    pub status_qos_class: Option<String>,
    pub tolerations: Vec<Toleration>,
    pub overhead: ResourceList,
    /// Pod-level resources (`spec.resources`).
    pub resources: Option<Resources>,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub volumes: Vec<Volume>,
    pub protection: Option<Protection>,
}

impl Pod {
    /// A pod with nothing but an identity.
    pub fn new(uid: Uid, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            uid,
            name: name.into(),
            namespace: namespace.into(),
            generation: 0,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            priority: None,
            termination_grace_secs: None,
            status_qos_class: None,
            tolerations: Vec::new(),
            overhead: ResourceList::default(),
            resources: None,
            containers: Vec::new(),
            init_containers: Vec::new(),
            volumes: Vec::new(),
            protection: None,
        }
    }

    /// A host workload: one container that carries the memory request (its protected share).
    pub fn workload(uid: Uid, name: impl Into<String>, memory_request: i64) -> Self {
        let name = name.into();
        let container = Container {
            name: name.clone(),
            resources: Resources {
                requests: ResourceList::of_memory(memory_request),
                ..Resources::default()
            },
            is_sidecar: false,
        };
        Self {
            containers: vec![container],
            ..Self::new(uid, "", name)
        }
    }

    /// For people: with its namespace, if it has one.
    pub fn full_name(&self) -> String {
        if self.namespace.is_empty() {
            self.name.clone()
        } else {
            format!("{}/{}", self.namespace, self.name)
        }
    }

    /// Priority as ranking reads it: absent counts as zero.
    pub fn effective_priority(&self) -> i32 {
        self.priority.unwrap_or(0)
    }
}

#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Container {
    pub name: String,
    pub resources: Resources,
    /// An init container with `restartPolicy: Always`. Means nothing on a regular container.
    pub is_sidecar: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Toleration {
    pub key: String,
    pub operator: String,
    pub value: String,
    pub effect: String,
}
