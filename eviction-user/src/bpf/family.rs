//! What is seen being used up. Each family has a ladder of hooks of its own, and fails or holds by itself.

use std::fmt;

use eviction_ebpf::abi::Kind;
use serde::{Serialize, Serializer};

use crate::model::{Resource, Signal};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    Memory,
    Inodes,
    /// Disk space.
    Bytes,
    /// Tasks, which is what process ids are used up by.
    Pids,
    /// OOM victims, stalls in reclaim, cgroups that come and go: told, and never armed.
    Observations,
}

impl Family {
    pub const ALL: [Self; 5] = [
        Self::Memory,
        Self::Inodes,
        Self::Bytes,
        Self::Pids,
        Self::Observations,
    ];

    /// The family that sees a signal's line being approached.
    pub const fn of(signal: Signal) -> Self {
        match signal.resource() {
            Resource::Memory => Self::Memory,
            Resource::Inodes => Self::Inodes,
            Resource::EphemeralStorage => Self::Bytes,
            Resource::Pids => Self::Pids,
        }
    }

    /// The name in reports and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Inodes => "inodes",
            Self::Bytes => "bytes",
            Self::Pids => "pids",
            Self::Observations => "observations",
        }
    }

    /// What the slots of this family count, or, where it has none, its events tell of.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Memory => Kind::Memory,
            Self::Inodes => Kind::Inodes,
            Self::Bytes => Kind::Bytes,
            Self::Pids => Kind::Forks,
            Self::Observations => Kind::OomKill,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl Serialize for Family {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
