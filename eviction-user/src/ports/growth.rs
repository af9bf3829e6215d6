//! What cgroups have used up of the watched file systems, by the kernel's own counters.

use crate::model::{Resource, Timestamp};
use std::collections::BTreeMap;

/// What the kernel counted since the programs were attached, for whoever knows a figure from some moment after that: it is
/// grown by the difference. Empty if nobody counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Growth {
    pub inodes: BTreeMap<Consumer, Grown>,
    pub bytes: BTreeMap<Consumer, Grown>,
    /// The space of some file system that matters is in no counter: who takes it is only known from walking its trees.
    pub uncounted_bytes: bool,
}

/// A cgroup's share of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Consumer {
    /// `st_dev`
    pub device: u64,
    /// Id in the hierarchy of the memory controller.
    pub cgroup: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grown {
    /// Used up minus given back; negative when a cgroup frees what others took, or what was there before.
    pub net: i64,
    /// Since when. It starts anew when the kernel's table had no room for it in between.
    pub since: Timestamp,
}

impl Growth {
    /// That of disk bytes or inodes; the others have no such counters.
    pub fn of(&self, resource: Resource) -> Option<&BTreeMap<Consumer, Grown>> {
        match resource {
            Resource::Inodes => Some(&self.inodes),
            Resource::EphemeralStorage => Some(&self.bytes),
            Resource::Memory | Resource::Pids => None,
        }
    }

    /// The net growth of inodes by cgroup, on all devices together.
    pub fn inodes_by_cgroup(&self) -> BTreeMap<u64, i64> {
        let mut sums = BTreeMap::new();
        for (consumer, grown) in &self.inodes {
            *sums.entry(consumer.cgroup).or_default() += grown.net;
        }
        sums
    }
}
