//! Whose the workloads are: who knows the cgroup of each, and when a victim is done with.

use crate::model::{Eviction, Uid};
use crate::ports::Refusal;
use crate::sys::cgroup::CgroupDir;
use std::time::Duration;

pub trait Owner {
    /// The workload's cgroup, only if it is still the very one that was ranked.
    fn group(&self, uid: &Uid, name: &str) -> Option<CgroupDir>;

    /// Hears who is about to be evicted. Must not block: the kill waits for it. `Some`: it asks for that itself, and once it is granted
    /// the victim has so long to end; zero: it is to be killed then.
    fn evicting(&mut self, id: u64, eviction: &Eviction) -> Option<Duration>;

    /// What has become of an eviction that it has asked for.
    fn answer(&mut self, uid: &Uid) -> Answer;

    /// May the victim be killed although there is no answer yet? If not, it is urgent from now on.
    fn may_go_unanswered(&mut self, uid: &Uid) -> bool;

    /// Hears that a victim which was to end by itself is about to be killed. Must not block.
    fn ending(&mut self, uid: &Uid);

    /// Has an earlier process begun to evict it, so that it can be gone on with?
    fn was_begun(&self, uid: &Uid) -> bool;

    /// May a victim run again after it was killed as a whole?
    fn revives(&self) -> bool;

    /// Is a victim without any process done with?
    fn is_done_with(&self, uid: &Uid) -> bool;
}

/// What has become of an eviction that an owner has asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Nothing yet.
    None,
    /// Also where nothing had to be asked.
    Granted,
    Refused(Refusal),
    /// There is none, for this reason, and the victim is to be killed all the same.
    Bypassed(String),
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

    fn evicting(&mut self, _id: u64, _eviction: &Eviction) -> Option<Duration> {
        None
    }

    fn answer(&mut self, _uid: &Uid) -> Answer {
        Answer::Granted
    }

    fn may_go_unanswered(&mut self, _uid: &Uid) -> bool {
        true
    }

    fn ending(&mut self, _uid: &Uid) {}

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
