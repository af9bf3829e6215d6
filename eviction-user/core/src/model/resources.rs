//! Requests and limits of a container or pod.

use super::quantity::Quantity;
use super::signal::Resource;

/// Amounts by resource; an absent entry differs from zero in several rules.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ResourceList {
    pub cpu: Option<Quantity>,
    pub memory: Option<Quantity>,
    pub ephemeral_storage: Option<Quantity>,
    /// Whether any `hugepages-*` entry is set. Their amounts decide nothing, but at pod level their
    /// presence hides the containers' requests.
    pub has_hugepages: bool,
}

impl ResourceList {
    pub fn of_memory(bytes: i64) -> Self {
        Self {
            memory: Some(Quantity::binary(bytes)),
            ..Self::default()
        }
    }

    pub fn get(&self, resource: Resource) -> Option<&Quantity> {
        match resource {
            Resource::Memory => self.memory.as_ref(),
            Resource::EphemeralStorage => self.ephemeral_storage.as_ref(),
            // Nobody can request these.
            Resource::Inodes | Resource::Pids => None,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Resources {
    pub requests: ResourceList,
    pub limits: ResourceList,
}
