//! The node's memory, as the kubelet (through cAdvisor) computes it: MemTotal minus the root
//! cgroup's working set. Neither MemFree nor MemAvailable.

use super::cgroup::{FilePages, Hierarchy, Version, parse};
use super::meminfo::{self, Meminfo};
use super::reader::{ReadError, Reader};
use std::path::Path;

/// One reading, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeMemory {
    pub total: u64,
    pub working_set: u64,
    /// File pages that the working set counts although they could be dropped at once.
    pub reclaimable_cache: u64,
    pub swap_free: u64,
    /// The working set by the node's own counters, which the kernel side compares. They are fresher than the root cgroup's
    /// figure, and nearly the same.
    pub counted: u64,
}

impl NodeMemory {
    pub fn available(&self) -> u64 {
        self.total.saturating_sub(self.working_set)
    }
}

#[derive(Debug)]
pub struct NodeMemoryReader {
    meminfo: Reader,
    stat: Reader,
    /// v1 only: the v2 root has no usage file.
    usage: Option<Reader>,
}

impl NodeMemoryReader {
    pub fn open(hierarchy: &Hierarchy) -> Result<Self, ReadError> {
        Self::open_with(hierarchy, "/proc/meminfo".as_ref())
    }

    pub(super) fn open_with(hierarchy: &Hierarchy, meminfo: &Path) -> Result<Self, ReadError> {
        let root = |file| Reader::open(&hierarchy.mount.join(file));
        Ok(Self {
            meminfo: Reader::open(meminfo)?,
            stat: root("memory.stat")?,
            usage: match hierarchy.version {
                Version::V1 => Some(root("memory.usage_in_bytes")?),
                Version::V2 => None,
            },
        })
    }

    pub fn read(&self) -> Result<NodeMemory, ReadError> {
        let meminfo = self.meminfo.read(meminfo::LINES, Meminfo::parse)?;
        let (usage, pages) = match &self.usage {
            Some(usage) => (
                usage.read("expected one number", parse::single)?,
                self.stat.read("has no total_inactive_file line", |c| {
                    FilePages::parse(c, Version::V1)
                })?,
            ),
            None => self
                .stat
                .read("lacks anon, file or inactive_file", v2_root_usage)?,
        };
        Ok(NodeMemory {
            total: meminfo.total,
            working_set: usage.saturating_sub(pages.inactive),
            reclaimable_cache: pages.reclaimable(),
            swap_free: meminfo.swap_free,
            counted: meminfo.counted,
        })
    }
}

/// `anon + file` and the file pages of the v2 root's `memory.stat`.
fn v2_root_usage(content: &[u8]) -> Option<(u64, FilePages)> {
    let [inactive, active, dirty, writeback] = FilePages::V2_KEYS;
    let keys = ["anon", "file", inactive, active, dirty, writeback];
    let [anon, file, pages @ ..] = parse::flat_keyed_all(content, keys);
    Some((anon?.checked_add(file?)?, FilePages::of(pages)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_counts_anonymous_and_file_memory_but_no_kernel_memory() {
        let stat = b"anon 100\nfile 50\nkernel 999\nslab 999\ninactive_file 20\nactive_file 30\n";
        let (usage, pages) = v2_root_usage(stat).unwrap();
        assert_eq!((usage, pages.inactive), (150, 20));
        assert_eq!(v2_root_usage(b"anon 100\n"), None);
    }

    #[test]
    fn v1_takes_the_root_usage() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(
            dir.path().join("memory.stat"),
            "inactive_file 1\ntotal_inactive_file 4096\n",
        )
        .unwrap();
        std::fs::write(dir.path().join("memory.usage_in_bytes"), "1052672\n").unwrap();
        let hierarchy = Hierarchy {
            version: Version::V1,
            mount: dir.path().to_owned(),
            freezer: None,
        };
        let read = NodeMemoryReader::open(&hierarchy).unwrap().read().unwrap();
        assert_eq!(read.working_set, 1_048_576);
        assert_eq!(read.available(), read.total - 1_048_576);
    }
}
