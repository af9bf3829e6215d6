//! Reading what comes out of a ring buffer. Bytes from the kernel are still input: nothing is taken for granted.

extern crate std;

use bytes::Buf;

use super::{ABI, Event, Kind, Rung};

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("an event has {expected} bytes, this record has {found}")]
    Size { expected: usize, found: usize },
    #[error("event of ABI {found}, this program speaks ABI {ABI}")]
    Abi { found: u16 },
    #[error("event of unknown kind {0}")]
    Kind(u8),
    #[error("event from unknown rung {0}")]
    Rung(u8),
}

impl Event {
    pub fn decode(mut record: &[u8]) -> Result<Self, DecodeError> {
        if record.len() != size_of::<Self>() {
            return Err(DecodeError::Size {
                expected: size_of::<Self>(),
                found: record.len(),
            });
        }
        let event = Self {
            time_ns: record.get_u64_ne(),
            cgroup_id: record.get_u64_ne(),
            amount: record.get_u64_ne(),
            limit_word: record.get_u64_ne(),
            usage: record.get_u64_ne(),
            slot: record.get_u32_ne(),
            device: record.get_u32_ne(),
            pid: record.get_u32_ne(),
            tgid: record.get_u32_ne(),
            cpu: record.get_u32_ne(),
            kind: record.get_u8(),
            rung: record.get_u8(),
            abi: record.get_u16_ne(),
        };
        if event.abi != ABI {
            return Err(DecodeError::Abi { found: event.abi });
        }
        Kind::try_from(event.kind)?;
        Rung::try_from(event.rung)?;
        Ok(event)
    }
}

impl TryFrom<u8> for Kind {
    type Error = DecodeError;

    fn try_from(number: u8) -> Result<Self, DecodeError> {
        [
            Self::Memory,
            Self::Inodes,
            Self::Bytes,
            Self::Forks,
            Self::OomKill,
            Self::Written,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == number)
        .ok_or(DecodeError::Kind(number))
    }
}

impl Rung {
    pub const ALL: [Self; 30] = [
        Self::FentryCharge,
        Self::KprobeCharge,
        Self::PerfFaults,
        Self::TraceFilemap,
        Self::TracePageAlloc,
        Self::FentryInode,
        Self::KprobeInode,
        Self::TraceExt4,
        Self::TraceXfs,
        Self::TraceBtrfs,
        Self::TraceNewTask,
        Self::TraceOom,
        Self::TraceReclaim,
        Self::TraceCgroups,
        Self::FentryFreed,
        Self::KprobeFreed,
        Self::TraceFreedExt4,
        Self::TraceFreedBtrfs,
        Self::FentryExt4Bytes,
        Self::KprobeExt4Bytes,
        Self::TraceExt4Bytes,
        Self::KprobeXfsBytes,
        Self::TraceXfsBytes,
        Self::KprobeBtrfsBytes,
        Self::TraceBtrfsBytes,
        Self::FentryTmpfsBytes,
        Self::KprobeTmpfsBytes,
        Self::FentryWritten,
        Self::KprobeWritten,
        Self::TraceWritten,
    ];

    /// The name users see, and tests compare: hook kind and hook.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FentryCharge => "fentry/page_counter_try_charge",
            Self::KprobeCharge => "kprobe/page_counter_try_charge",
            Self::PerfFaults => "perf/page-faults",
            Self::TraceFilemap => "raw_tp/mm_filemap_add_to_page_cache",
            Self::TracePageAlloc => "raw_tp/mm_page_alloc",
            Self::FentryInode => "fentry/inode_init_owner",
            Self::KprobeInode => "kprobe/inode_init_owner",
            Self::TraceExt4 => "raw_tp/ext4_allocate_inode",
            Self::TraceXfs => "raw_tp/xfs_create",
            Self::TraceBtrfs => "raw_tp/btrfs_inode_new",
            Self::TraceNewTask => "raw_tp/task_newtask",
            Self::TraceOom => "raw_tp/mark_victim",
            Self::TraceReclaim => "raw_tp/mm_vmscan_direct_reclaim_begin",
            Self::TraceCgroups => "raw_tp/cgroup_mkdir",
            Self::FentryFreed => "fentry/clear_inode",
            Self::KprobeFreed => "kprobe/clear_inode",
            Self::TraceFreedExt4 => "raw_tp/ext4_free_inode",
            Self::TraceFreedBtrfs => "raw_tp/btrfs_inode_evict",
            Self::FentryExt4Bytes => "fentry/ext4_claim_free_clusters",
            Self::KprobeExt4Bytes => "kprobe/ext4_claim_free_clusters",
            Self::TraceExt4Bytes => "raw_tp/ext4_da_reserve_space",
            Self::KprobeXfsBytes => "kprobe/xfs_freecounter",
            Self::TraceXfsBytes => "raw_tp/xfs_trans_commit",
            Self::KprobeBtrfsBytes => "kprobe/btrfs_reserve_data_bytes",
            Self::TraceBtrfsBytes => "raw_tp/btrfs_reserved_extent_alloc",
            Self::FentryTmpfsBytes => "fentry/shmem_acct_blocks",
            Self::KprobeTmpfsBytes => "kprobe/shmem_acct_blocks",
            Self::FentryWritten => "fentry/generic_write_checks",
            Self::KprobeWritten => "kprobe/generic_write_checks",
            Self::TraceWritten => "raw_tp/writeback_dirty_folio",
        }
    }
}

impl core::fmt::Display for Rung {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(self.name())
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no rung is called \"{0}\"; `eviction doctor` lists them")]
pub struct UnknownRung(std::string::String);

impl core::str::FromStr for Rung {
    type Err = UnknownRung;

    fn from_str(name: &str) -> Result<Self, UnknownRung> {
        Self::ALL
            .into_iter()
            .find(|rung| rung.name() == name)
            .ok_or_else(|| UnknownRung(name.into()))
    }
}

impl TryFrom<u8> for Rung {
    type Error = DecodeError;

    fn try_from(number: u8) -> Result<Self, DecodeError> {
        Self::ALL
            .into_iter()
            .find(|rung| *rung as u8 == number)
            .ok_or(DecodeError::Rung(number))
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// Written field by field, as the kernel lays it out, so that a swapped field shows.
    fn record(kind: u8, rung: u8, abi: u16) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [11_u64, 12, 13, 14, 15] {
            bytes.extend(word.to_ne_bytes());
        }
        for word in [16_u32, 17, 18, 19, 20] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend([kind, rung]);
        bytes.extend(abi.to_ne_bytes());
        bytes
    }

    #[test]
    fn a_record_becomes_the_event_that_was_sent() {
        let event = Event::decode(&record(1, 3, ABI)).unwrap();
        let expected = Event {
            time_ns: 11,
            cgroup_id: 12,
            amount: 13,
            limit_word: 14,
            usage: 15,
            slot: 16,
            device: 17,
            pid: 18,
            tgid: 19,
            cpu: 20,
            kind: Kind::Memory as u8,
            rung: Rung::PerfFaults as u8,
            abi: ABI,
        };
        assert_eq!(event, expected);
    }

    #[test]
    fn what_is_no_event_of_ours_is_refused_by_name() {
        assert_eq!(
            Event::decode(&[0; 63]),
            Err(DecodeError::Size {
                expected: 64,
                found: 63
            })
        );
        assert_eq!(
            Event::decode(&record(1, 3, 9)),
            Err(DecodeError::Abi { found: 9 })
        );
        assert_eq!(Event::decode(&record(7, 3, ABI)), Err(DecodeError::Kind(7)));
        assert_eq!(
            Event::decode(&record(1, 99, ABI)),
            Err(DecodeError::Rung(99))
        );
    }

    #[test]
    fn every_rung_is_found_by_its_number_and_by_its_name() {
        for rung in Rung::ALL {
            assert_eq!(Rung::try_from(rung as u8), Ok(rung));
            assert_eq!(rung.name().parse(), Ok(rung));
        }
        assert_eq!(
            "perf/page".parse::<Rung>(),
            Err(UnknownRung("perf/page".into()))
        );
    }

    #[test]
    fn the_abi_number_is_in_the_name_of_its_global() {
        assert_eq!(super::super::names::ABI, std::format!("EVICTION_ABI_{ABI}"));
    }
}
