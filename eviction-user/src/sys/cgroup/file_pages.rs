//! Page cache in `memory.stat`, descendants included.

use super::{Version, parse};

/// In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePages {
    /// What the kubelet's working set leaves out.
    pub inactive: u64,
    active: u64,
    /// Dirty or being written back: to be dropped only after that.
    unclean: u64,
}

impl FilePages {
    /// `None` without a line for inactive file pages. The other lines only make more of the cache
    /// reclaimable: 0 where they are missing.
    pub fn parse(stat: &[u8], version: Version) -> Option<Self> {
        let keys = match version {
            Version::V1 => [
                "total_inactive_file",
                "total_active_file",
                "total_dirty",
                "total_writeback",
            ],
            Version::V2 => Self::V2_KEYS,
        };
        Self::of(parse::flat_keyed_all(stat, keys))
    }

    pub(in crate::sys) const V2_KEYS: [&'static str; 4] = [
        "inactive_file",
        "active_file",
        "file_dirty",
        "file_writeback",
    ];

    /// From the values of these keys, in this order.
    pub(in crate::sys) fn of(values: [Option<u64>; 4]) -> Option<Self> {
        let [inactive, active, dirty, writeback] = values;
        Some(Self {
            inactive: inactive?,
            active: active.unwrap_or(0),
            unclean: dirty.unwrap_or(0).saturating_add(writeback.unwrap_or(0)),
        })
    }

    /// Active file pages without those that must be written first. `memory.stat` does not say which list
    /// those are on, so all are taken off: too little rather than too much. Locked pages (unevictable) and
    /// shared memory (anonymous) are on neither list (`lru_list`, 5.10 to 7.3).
    pub fn reclaimable(self) -> u64 {
        self.active.saturating_sub(self.unclean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_14_active_file_pages_are_reclaimable_unless_they_must_be_written_first() {
        let v2 =
            b"file 900\nfile_dirty 30\nfile_writeback 20\ninactive_file 100\nactive_file 700\n";
        let pages = FilePages::parse(v2, Version::V2).unwrap();
        assert_eq!((pages.inactive, pages.reclaimable()), (100, 650));
        let dirty = b"file_dirty 800\ninactive_file 100\nactive_file 700\n";
        assert_eq!(
            FilePages::parse(dirty, Version::V2).unwrap().reclaimable(),
            0
        );
    }

    #[test]
    fn v1_counts_the_descendants_and_recorded_files_are_understood() {
        let recorded = include_bytes!("../../../fixtures/v1-6.1/root/memory.stat");
        let pages = FilePages::parse(recorded, Version::V1).unwrap();
        assert_eq!((pages.inactive, pages.reclaimable()), (8_388_608, 172_032));
        let recorded = include_bytes!("../../../fixtures/v2-5.10/root/memory.stat");
        let pages = FilePages::parse(recorded, Version::V2).unwrap();
        assert_eq!(
            (pages.inactive, pages.reclaimable()),
            (8_380_416, 0),
            "all of it is dirty"
        );
        assert_eq!(FilePages::parse(b"anon 1\n", Version::V2), None);
    }
}
