//! The node's memory, as the kubelet (through cAdvisor) computes it: MemTotal minus the root
//! cgroup's working set. Neither MemFree nor MemAvailable.

use super::cgroup::{Hierarchy, Version, parse};
use super::reader::{ReadError, Reader};
use std::path::Path;

/// One reading, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeMemory {
    pub total: u64,
    pub working_set: u64,
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
        let total = self.meminfo.read("has no MemTotal line", mem_total)?;
        let (usage, inactive_file) = match &self.usage {
            Some(usage) => (
                usage.read("expected one number", parse::single)?,
                self.stat.read("has no total_inactive_file line", |c| {
                    parse::flat_keyed(c, "total_inactive_file")
                })?,
            ),
            None => self
                .stat
                .read("lacks anon, file or inactive_file", v2_root_usage)?,
        };
        Ok(NodeMemory {
            total,
            working_set: usage.saturating_sub(inactive_file),
        })
    }
}

/// `anon + file` and `inactive_file` of the v2 root's `memory.stat`.
fn v2_root_usage(content: &[u8]) -> Option<(u64, u64)> {
    let value = |key| parse::flat_keyed(content, key);
    Some((
        value("anon")?.checked_add(value("file")?)?,
        value("inactive_file")?,
    ))
}

/// MemTotal of /proc/meminfo, which is written in KiB.
fn mem_total(content: &[u8]) -> Option<u64> {
    let line = content
        .split(|&b| b == b'\n')
        .find_map(|line| line.strip_prefix(b"MemTotal:"))?;
    let number = line.trim_ascii().strip_suffix(b" kB")?;
    std::str::from_utf8(number)
        .ok()?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v2_counts_anonymous_and_file_memory_but_no_kernel_memory() {
        let stat = b"anon 100\nfile 50\nkernel 999\nslab 999\ninactive_file 20\nactive_file 30\n";
        assert_eq!(v2_root_usage(stat), Some((150, 20)));
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

    #[test]
    fn mem_total_is_in_kib() {
        assert_eq!(
            mem_total(b"MemTotal:       24654096 kB\nMemFree:  1 kB\n"),
            Some(24_654_096 * 1024)
        );
        assert_eq!(mem_total(b"MemFree:  1 kB\n"), None);
    }
}
