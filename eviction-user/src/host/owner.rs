//! Whose the workloads are: who knows the cgroup of each, and when a victim is done with.

use crate::model::{Eviction, Uid};
use crate::sys::cgroup::CgroupDir;

pub trait Owner {
    /// The workload's cgroup, only if it is still the very one that was ranked.
    fn group(&self, uid: &Uid, name: &str) -> Option<CgroupDir>;

    /// Hears who is about to be evicted. Must not block: the kill waits for it.
    fn evicting(&mut self, id: u64, eviction: &Eviction);

    /// Has an earlier process begun to evict it, so that it can be gone on with?
    fn was_begun(&self, uid: &Uid) -> bool;

    /// May a victim run again after it was killed as a whole?
    fn revives(&self) -> bool;

    /// Is a victim without any process done with?
    fn is_done_with(&self, uid: &Uid) -> bool;
}

/// Without Kubernetes: the workloads are the children of one cgroup, known by their ids.
pub struct HostOwner(CgroupDir);

impl HostOwner {
    pub fn new(root: CgroupDir) -> Self {
        Self(root)
    }
}

impl Owner for HostOwner {
    fn group(&self, uid: &Uid, name: &str) -> Option<CgroupDir> {
        let group = self.0.child(name)?;
        (group.id().to_string() == uid.as_str()).then_some(group)
    }

    fn evicting(&mut self, _id: u64, _eviction: &Eviction) {}

    fn was_begun(&self, _uid: &Uid) -> bool {
        true
    }

    fn revives(&self) -> bool {
        false
    }

    fn is_done_with(&self, _uid: &Uid) -> bool {
        true
    }
}
