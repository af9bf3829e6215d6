//! The kernel's own counts of OOM kills, against which events are checked.

use super::{CgroupDir, Hierarchy, Version, parse, subtree};
use std::collections::BTreeMap;

/// Stands for the whole node: no cgroup has this id.
pub const NODE: u64 = 0;

/// OOM kills since each cgroup was made, by its id, in `top` and below; and since boot on the node, as [`NODE`]. What
/// cannot be read is left out: the cgroup has just gone, or the kernel does not count.
pub fn oom_counts(top: &CgroupDir, hierarchy: &Hierarchy) -> BTreeMap<u64, u64> {
    let file = match hierarchy.version {
        // `memory.events` adds up the descendants' (5.2 and later have both).
        Version::V2 => "memory.events.local",
        Version::V1 => "memory.oom_control",
    };
    let own = |group: &CgroupDir| {
        let reader = group.reader(file).ok()?;
        let count = reader.read("has no oom_kill line", |content| {
            parse::flat_keyed(content, "oom_kill")
        });
        Some((group.id(), count.ok()?))
    };
    let mut counts: BTreeMap<u64, u64> = subtree(top).iter().filter_map(own).collect();
    counts.extend(node_oom_kills().map(|count| (NODE, count)));
    counts
}

/// `oom_kill` of /proc/vmstat (4.13 and later).
pub fn node_oom_kills() -> Option<u64> {
    parse::flat_keyed(&std::fs::read("/proc/vmstat").ok()?, "oom_kill")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn each_cgroup_has_its_own_count_and_the_node_that_since_boot() {
        for (version, file) in [
            (Version::V2, "memory.events.local"),
            (Version::V1, "memory.oom_control"),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir(dir.path().join("child")).unwrap();
            std::fs::write(dir.path().join(file), "oom 9\noom_kill 1\n").unwrap();
            let child = dir.path().join("child");
            std::fs::write(child.join(file), "under_oom 0\noom_kill 2\n").unwrap();
            let hierarchy = Hierarchy {
                version,
                mount: dir.path().to_owned(),
                freezer: None,
            };
            let top = CgroupDir::open(dir.path()).unwrap();
            let counts = oom_counts(&top, &hierarchy);
            let of = |path: &Path| counts.get(&CgroupDir::open(path).unwrap().id()).copied();
            assert_eq!((of(dir.path()), of(&child)), (Some(1), Some(2)));
            assert_eq!(counts.get(&NODE).copied(), node_oom_kills());
        }
    }
}
