//! Removed cgroups that still hold memory.

use super::{Hierarchy, Version, parse};
use crate::sys::reader::{ReadError, Reader};

/// `nr_dying_descendants` of the whole tree (`cgroup_stat_show`, 4.14 to 7.3).
#[derive(Debug)]
pub struct DyingCgroups(Reader);

impl DyingCgroups {
    /// `None`: cgroup v1 does not tell.
    pub fn open(hierarchy: &Hierarchy) -> Result<Option<Self>, ReadError> {
        match hierarchy.version {
            Version::V1 => Ok(None),
            Version::V2 => Reader::open(&hierarchy.mount.join("cgroup.stat"))
                .map(Self)
                .map(Some),
        }
    }

    pub fn read(&self) -> Result<u64, ReadError> {
        self.0.read("has no nr_dying_descendants line", |content| {
            parse::flat_keyed(content, "nr_dying_descendants")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_18_the_roots_cgroup_stat_tells_how_many() {
        let dir = tempfile::tempdir().unwrap();
        let stat = "nr_descendants 7\nnr_subsys_memory 8\nnr_dying_descendants 41\n";
        std::fs::write(dir.path().join("cgroup.stat"), stat).unwrap();
        let hierarchy = |version| Hierarchy {
            version,
            mount: dir.path().to_owned(),
            freezer: None,
        };
        let dying = DyingCgroups::open(&hierarchy(Version::V2)).unwrap();
        assert_eq!(dying.unwrap().read().unwrap(), 41);
        assert!(
            DyingCgroups::open(&hierarchy(Version::V1))
                .unwrap()
                .is_none()
        );
    }
}
