//! Which cgroups must never be victims whatever the ranking says: our own, pid 1's, and all above them.

use crate::sys::cgroup::{CgroupDir, Hierarchy, Version, subtree};
use std::path::{Path, PathBuf};

/// The cgroups of ourselves and of pid 1 in the memory hierarchy, as directories.
#[derive(Debug, Clone, Default)]
pub struct Untouchable(Vec<PathBuf>);

impl Untouchable {
    pub fn find(hierarchy: &Hierarchy) -> Self {
        let own = i32::try_from(std::process::id()).ok();
        let processes = [("self", own), ("1", Some(1))];
        let found = processes.into_iter().filter_map(|(name, pid)| {
            let content = std::fs::read_to_string(format!("/proc/{name}/cgroup")).ok()?;
            let shown = memory_group(&content, hierarchy.version)?;
            let group = hierarchy
                .directory_of(shown)
                .or_else(|| group_that_lists(hierarchy, pid?));
            if group.is_none() {
                tracing::warn!(
                    "the cgroup of process {name} is not below {}: it cannot be protected by its place",
                    hierarchy.mount.display()
                );
            }
            group
        });
        Self(found.collect())
    }

    /// Killing `group` with everything below would hit one of them.
    pub fn is_in(&self, group: &Path) -> bool {
        self.0.iter().any(|kept| kept.starts_with(group))
    }
}

/// In a cgroup namespace names do not tell where a process is, but its cgroup lists it all the same.
fn group_that_lists(hierarchy: &Hierarchy, pid: i32) -> Option<PathBuf> {
    let root = CgroupDir::open(&hierarchy.mount).ok()?;
    let lists = |group: &CgroupDir| {
        let mut pids = Vec::new();
        group.pids(&mut pids).is_ok() && pids.contains(&pid)
    };
    subtree(&root)
        .into_iter()
        .find(lists)
        .map(|group| group.path().to_owned())
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
    fn where_names_do_not_tell_the_cgroup_that_lists_a_process_is_found() {
        let mount = tempfile::tempdir().unwrap();
        for (group, pids) in [("", "1\n2\n"), ("pods", ""), ("pods/app", "77\n4711\n")] {
            std::fs::create_dir_all(mount.path().join(group)).unwrap();
            std::fs::write(mount.path().join(group).join("cgroup.procs"), pids).unwrap();
        }
        let hierarchy = Hierarchy {
            version: Version::V2,
            mount: mount.path().to_owned(),
            freezer: None,
        };
        let found = |pid| group_that_lists(&hierarchy, pid);
        assert_eq!(found(4711), Some(mount.path().join("pods/app")));
        assert_eq!(found(1), Some(mount.path().to_owned()));
        assert_eq!(found(3), None);
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
