//! The memory figures of one cgroup, as the kubelet (through cAdvisor) computes them.

use super::{CgroupDir, FilePages, Version, parse, subtree};
use crate::sys::reader::{ReadError, Reader};

/// Limits above this count as none (cAdvisor's `maxMemorySize`); v1 writes 2^63 - 4096 for "no limit".
const NO_LIMIT: u64 = 1 << 62;

/// Pages are 4 KiB on every architecture that we build for.
pub const PAGE_SIZE: u64 = 4096;

/// The file with the counter that charging moves.
pub fn usage_file(version: Version) -> &'static str {
    match version {
        Version::V1 => "memory.usage_in_bytes",
        Version::V2 => "memory.current",
    }
}

/// One reading, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupMemory {
    pub usage: u64,
    pub inactive_file: u64,
    /// File pages that the working set counts although they could be dropped at once.
    pub reclaimable_cache: u64,
    /// `None`: this cgroup has no limit.
    pub limit: Option<u64>,
}

impl GroupMemory {
    /// usage - inactive file pages, never below 0: the kubelet's working set.
    pub fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.inactive_file)
    }
}

/// Reads what one cgroup uses of memory through descriptors that stay open.
#[derive(Debug)]
pub struct GroupUseReader {
    usage: Reader,
    stat: Reader,
    version: Version,
}

impl GroupUseReader {
    pub fn open(group: &CgroupDir, version: Version) -> Result<Self, ReadError> {
        Ok(Self {
            usage: group.reader(usage_file(version))?,
            stat: group.reader("memory.stat")?,
            version,
        })
    }

    /// The usage alone: one short file.
    pub fn usage(&self) -> Result<u64, ReadError> {
        self.usage.read("expected one number", parse::single)
    }

    /// Without a limit.
    pub fn read(&self) -> Result<GroupMemory, ReadError> {
        let usage = self.usage()?;
        let pages = self.stat.read("has no line for file pages", |content| {
            FilePages::parse(content, self.version)
        })?;
        Ok(GroupMemory {
            usage,
            inactive_file: pages.inactive,
            reclaimable_cache: pages.reclaimable(),
            limit: None,
        })
    }
}

/// The same with the limit.
#[derive(Debug)]
pub struct GroupMemoryReader {
    used: GroupUseReader,
    limit: Reader,
}

impl GroupMemoryReader {
    pub fn open(group: &CgroupDir, version: Version) -> Result<Self, ReadError> {
        let limit = match version {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        };
        Ok(Self {
            used: GroupUseReader::open(group, version)?,
            limit: group.reader(limit)?,
        })
    }

    /// The usage alone: one short file.
    pub fn usage(&self) -> Result<u64, ReadError> {
        self.used.usage()
    }

    pub fn read(&self) -> Result<GroupMemory, ReadError> {
        let used = self.used.read()?;
        let limit = self
            .limit
            .read("expected one number or max", parse::single)?;
        Ok(GroupMemory {
            limit: Some(limit).filter(|&l| l <= NO_LIMIT),
            ..used
        })
    }
}

/// How often the OOM killer has struck in this cgroup and below.
pub fn oom_kills(group: &CgroupDir, version: Version) -> Result<u64, ReadError> {
    let count = |group: &CgroupDir, file| {
        group.reader(file)?.read("has no oom_kill line", |content| {
            parse::flat_keyed(content, "oom_kill")
        })
    };
    match version {
        Version::V2 => count(group, "memory.events"),
        // mem_cgroup_oom_control_read() (4.13 to 6.18) counts this cgroup alone: add the descendants'.
        Version::V1 => subtree(group)
            .iter()
            .map(|g| count(g, "memory.oom_control"))
            .sum(),
    }
}

/// `memory.low`, the memory that the cgroup has been promised; v1 has no such promise.
pub fn protected_memory(group: &CgroupDir, version: Version) -> u64 {
    match version {
        Version::V1 => 0,
        Version::V2 => group.number("memory.low").unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(files: &[(&str, &str)]) -> (tempfile::TempDir, CgroupDir) {
        let dir = tempfile::tempdir().unwrap();
        for (name, content) in files {
            std::fs::write(dir.path().join(name), content).unwrap();
        }
        let group = CgroupDir::open(dir.path()).unwrap();
        (dir, group)
    }

    #[test]
    fn v2_figures_with_and_without_a_limit() {
        let (dir, group) = group(&[
            ("memory.current", "104857600\n"),
            ("memory.max", "max\n"),
            ("memory.stat", "anon 1\nfile 2\ninactive_file 4857600\n"),
        ]);
        let reader = GroupMemoryReader::open(&group, Version::V2).unwrap();
        let reading = reader.read().unwrap();
        assert_eq!((reading.working_set(), reading.limit), (100_000_000, None));
        std::fs::write(dir.path().join("memory.max"), "209715200\n").unwrap();
        assert_eq!(reader.read().unwrap().limit, Some(209_715_200));
    }

    #[test]
    fn v1_figures_count_the_descendants_and_know_its_word_for_no_limit() {
        let (_dir, group) = group(&[
            ("memory.usage_in_bytes", "1000\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
            (
                "memory.stat",
                "inactive_file 900\ntotal_inactive_file 1200\n",
            ),
        ]);
        let reading = GroupMemoryReader::open(&group, Version::V1)
            .unwrap()
            .read()
            .unwrap();
        assert_eq!(
            (reading.working_set(), reading.limit),
            (0, None),
            "never below zero"
        );
    }

    #[test]
    fn oom_kills_of_v1_are_summed_over_the_subtree() {
        let (dir, group) = group(&[(
            "memory.oom_control",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
        )]);
        std::fs::create_dir(dir.path().join("child")).unwrap();
        std::fs::write(
            dir.path().join("child/memory.oom_control"),
            "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        )
        .unwrap();
        assert_eq!(oom_kills(&group, Version::V1).unwrap(), 3);
    }
}
