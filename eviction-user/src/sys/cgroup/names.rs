//! From a cgroup id, as kernel events carry it, to its name.

use super::{CgroupDir, Hierarchy, subtree};
use std::collections::BTreeMap;

/// Names by id. Keeps those of removed cgroups: an event may be about one that has just gone.
#[derive(Debug)]
pub struct CgroupNames {
    hierarchy: Hierarchy,
    names: BTreeMap<u64, String>,
}

impl CgroupNames {
    /// Learns what exists now.
    pub fn new(hierarchy: Hierarchy) -> Self {
        let mut names = Self {
            hierarchy,
            names: BTreeMap::new(),
        };
        names.learn();
        names
    }

    /// `None`: unknown also after another walk, so made and removed between two events.
    pub fn name(&mut self, id: u64) -> Option<&str> {
        // No cgroup has this id: whoever asks does not know.
        if id == 0 {
            return None;
        }
        if !self.names.contains_key(&id) {
            self.learn();
        }
        self.names.get(&id).map(String::as_str)
    }

    fn learn(&mut self) {
        let Ok(root) = CgroupDir::open(&self.hierarchy.mount) else {
            return;
        };
        for group in subtree(&root) {
            let name = self.hierarchy.name_of(group.path());
            self.names.insert(group.id(), name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cgroup::Version;

    #[test]
    fn a_name_is_known_also_after_the_cgroup_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("kubepods/pod1")).unwrap();
        let mut names = CgroupNames::new(Hierarchy {
            version: Version::V2,
            mount: dir.path().to_owned(),
            freezer: None,
        });
        std::fs::create_dir(dir.path().join("late")).unwrap();
        let id = |path: &str| CgroupDir::open(&dir.path().join(path)).unwrap().id();
        let (pod, late) = (id("kubepods/pod1"), id("late"));
        assert_eq!(names.name(late), Some("/late"), "made after the first walk");
        std::fs::remove_dir(dir.path().join("kubepods/pod1")).unwrap();
        assert_eq!(names.name(pod), Some("/kubepods/pod1"));
        assert_eq!(names.name(u64::MAX), None);
    }
}
