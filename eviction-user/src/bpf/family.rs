//! What is seen being used up, and where. Each family has a ladder of hooks of its own, and fails or holds by itself.

use std::fmt;

use eviction_ebpf::abi::Kind;
use serde::{Serialize, Serializer};

use crate::{model::Resource, sys::mount::FsKind};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Family {
    Memory,
    /// Inodes being made: on all file systems alike, where a rung sees all of them.
    Inodes,
    /// Inodes being freed. Only the ranking is the better for it.
    Freed,
    /// Disk space, which each file system takes in its own way.
    Ext4Bytes,
    XfsBytes,
    BtrfsBytes,
    TmpfsBytes,
    /// Disk space by what is written, where the file system is not seen taking it.
    WrittenBytes,
    /// Tasks, which is what process ids are used up by.
    Pids,
    /// OOM victims, stalls in reclaim, cgroups that come and go: told, and never armed.
    Observations,
}

impl Family {
    pub const ALL: [Self; 10] = [
        Self::Memory,
        Self::Inodes,
        Self::Freed,
        Self::Ext4Bytes,
        Self::XfsBytes,
        Self::BtrfsBytes,
        Self::TmpfsBytes,
        Self::WrittenBytes,
        Self::Pids,
        Self::Observations,
    ];

    /// The family that sees a device's inodes or bytes being used up.
    pub const fn of_device(resource: Resource, kind: &FsKind) -> Option<Self> {
        match (resource, kind) {
            (Resource::Inodes, _) => Some(Self::Inodes),
            (Resource::EphemeralStorage, FsKind::Ext4) => Some(Self::Ext4Bytes),
            (Resource::EphemeralStorage, FsKind::Xfs) => Some(Self::XfsBytes),
            (Resource::EphemeralStorage, FsKind::Btrfs) => Some(Self::BtrfsBytes),
            (Resource::EphemeralStorage, FsKind::Tmpfs) => Some(Self::TmpfsBytes),
            (Resource::EphemeralStorage, FsKind::Other(_)) => Some(Self::WrittenBytes),
            _ => None,
        }
    }

    /// What is left where no hook of this family can be attached.
    pub const fn instead(self) -> Option<Self> {
        match self {
            Self::Ext4Bytes | Self::BtrfsBytes => Some(Self::WrittenBytes),
            // What is written bounds neither: xfs takes a multiple of it, tmpfs takes pages that are only read.
            _ => None,
        }
    }

    /// The name in reports and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Inodes => "inodes",
            Self::Freed => "freed-inodes",
            Self::Ext4Bytes => "ext4-bytes",
            Self::XfsBytes => "xfs-bytes",
            Self::BtrfsBytes => "btrfs-bytes",
            Self::TmpfsBytes => "tmpfs-bytes",
            Self::WrittenBytes => "written-bytes",
            Self::Pids => "pids",
            Self::Observations => "observations",
        }
    }

    /// What the slots of this family count, or, where it has none, its events tell of.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Memory => Kind::Memory,
            Self::Inodes | Self::Freed => Kind::Inodes,
            Self::Ext4Bytes | Self::XfsBytes | Self::BtrfsBytes | Self::TmpfsBytes => Kind::Bytes,
            Self::WrittenBytes => Kind::Written,
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
