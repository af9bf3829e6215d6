//! Pods as victims: found by their cgroups, told to the API, and done with when their kubelet says so.

use super::groups::pod_groups;
use super::known::Listed;
use super::record::Record;
use super::reports::Report;
use crate::host::Owner;
use crate::model::{Eviction, Uid};
use crate::sys::cgroup::CgroupDir;
use std::sync::Arc;
use tokio::sync::{mpsc, watch};

pub struct PodOwner {
    root: CgroupDir,
    listed: watch::Receiver<Arc<Listed>>,
    reports: mpsc::UnboundedSender<Report>,
}

impl PodOwner {
    pub(super) fn new(
        root: CgroupDir,
        listed: watch::Receiver<Arc<Listed>>,
        reports: mpsc::UnboundedSender<Report>,
    ) -> Self {
        Self {
            root,
            listed,
            reports,
        }
    }
}

impl Owner for PodOwner {
    /// By the uid: a pod of the same name that was made since is another one.
    fn group(&self, uid: &Uid, _name: &str) -> Option<CgroupDir> {
        let found = pod_groups(&self.root).into_iter();
        found
            .filter(|(of, _)| of == uid.as_str())
            .map(|(_, group)| group)
            .next()
    }

    fn evicting(&mut self, id: u64, eviction: &Eviction) {
        // The other end lives as long as the process.
        let _ = self.reports.send(Report::Evicted(Record::of(id, eviction)));
    }

    /// Until the kubelet has heard of it, it restarts what has died.
    fn revives(&self) -> bool {
        true
    }

    fn is_done_with(&self, uid: &Uid) -> bool {
        let listed = self.listed.borrow();
        match listed.get(uid.as_str()) {
            Some(pod) => pod.is_torn_down(),
            None => listed.is_complete,
        }
    }
}
