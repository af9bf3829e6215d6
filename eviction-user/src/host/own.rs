//! Which cgroups must never be victims whatever the ranking says: our own, pid 1's, and all above them.

use crate::sys::cgroup::{Hierarchy, Version};
use std::path::{Path, PathBuf};

/// The cgroups of ourselves and of pid 1 in the memory hierarchy, as directories.
#[derive(Debug, Clone, Default)]
pub(super) struct Untouchable(Vec<PathBuf>);

impl Untouchable {
    pub(super) fn find(hierarchy: &Hierarchy) -> Self {
        let group_of = |pid: &str| {
            let content = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
            hierarchy
                .resolve(Path::new(memory_group(&content, hierarchy.version)?))
                .ok()
        };
        Self(["self", "1"].into_iter().filter_map(group_of).collect())
    }

    /// Killing `group` with everything below would hit one of them.
    pub(super) fn is_in(&self, group: &Path) -> bool {
        self.0.iter().any(|kept| kept.starts_with(group))
    }
}

/// The path in the memory hierarchy in the content of /proc/PID/cgroup.
fn memory_group(content: &str, version: Version) -> Option<&str> {
    content.lines().find_map(|line| {
        let (hierarchy, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let wanted = match version {
            Version::V1 => controllers.split(',').any(|c| c == "memory"),
            Version::V2 => hierarchy == "0",
        };
        wanted.then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_hierarchy_is_found_on_v1_and_v2() {
        let hybrid = "9:name=systemd:/x\n4:memory:/process_api/a7\n1:cpu:/\n0::/unified\n";
        assert_eq!(memory_group(hybrid, Version::V1), Some("/process_api/a7"));
        assert_eq!(memory_group(hybrid, Version::V2), Some("/unified"));
        assert_eq!(
            memory_group("0::/a:b\n", Version::V2),
            Some("/a:b"),
            "a name may hold colons"
        );
        assert_eq!(memory_group("0::/a\n", Version::V1), None);
    }

    #[test]
    fn our_own_group_and_all_above_it_are_kept_but_not_its_siblings() {
        let kept = Untouchable(vec!["/sys/fs/cgroup/system.slice/eviction.service".into()]);
        assert!(kept.is_in(Path::new("/sys/fs/cgroup/system.slice/eviction.service")));
        assert!(kept.is_in(Path::new("/sys/fs/cgroup/system.slice")));
        assert!(!kept.is_in(Path::new("/sys/fs/cgroup/system.slice/eviction.service2")));
        assert!(!kept.is_in(Path::new("/sys/fs/cgroup/user.slice")));
    }
}
