//! Pods as victims: found by their cgroups, told to the API, and done with when their kubelet says so.

use super::cluster::AfterEviction;
use super::disk::PodPlaces;
use super::identity::places;
use super::known::Listed;
use super::pending::Asks;
use crate::host::{Answer, Owner};
use crate::model::{Eviction, Uid};
use crate::sys::cgroup::CgroupDir;
use crate::sys::fault::{self, Point};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub struct PodOwner {
    root: CgroupDir,
    listed: watch::Receiver<Arc<Listed>>,
    asks: Asks,
    /// Those that an earlier process has left a record of.
    begun: BTreeSet<String>,
    places: PodPlaces,
    after: AfterEviction,
}

impl PodOwner {
    pub(super) fn new(
        root: CgroupDir,
        listed: watch::Receiver<Arc<Listed>>,
        begun: BTreeSet<String>,
        places: PodPlaces,
        after: AfterEviction,
        asks: Asks,
    ) -> Self {
        Self {
            root,
            listed,
            asks,
            begun,
            places,
            after,
        }
    }
}

/// The pod's cgroup, below the one that holds them all.
pub(super) fn group(root: &CgroupDir, uid: &str) -> Option<CgroupDir> {
    let places = places(&root.name(), uid);
    let mut places = places.iter().filter_map(|place| place.to_str());
    places.find_map(|place| root.child(place))
}

impl Owner for PodOwner {
    /// By the uid: a pod of the same name that was made since is another one.
    fn group(&self, uid: &Uid, _name: &str) -> Option<CgroupDir> {
        group(&self.root, uid.as_str())
    }

    fn evicting(&mut self, id: u64, eviction: &Eviction) -> Option<Duration> {
        let listed = Arc::clone(&self.listed.borrow());
        self.asks
            .begin(id, eviction, |uid| listed.get(uid).is_some())
    }

    fn answer(&mut self, uid: &Uid) -> Answer {
        self.asks.answer(uid)
    }

    fn may_go_unanswered(&mut self, uid: &Uid) -> bool {
        self.asks.may_go_unanswered(uid)
    }

    fn ending(&mut self, uid: &Uid) {
        self.asks.ending(uid);
    }

    /// Without a record nobody tells the kubelet, which would start it again for ever, to be killed for ever.
    fn was_begun(&self, uid: &Uid) -> bool {
        self.begun.contains(uid.as_str())
    }

    /// Until the kubelet has heard of it, it restarts what has died.
    fn revives(&self) -> bool {
        true
    }

    /// As for the kubelet: its containers have ended, and its volumes are gone, for they may be what the node is short of.
    fn is_done_with(&self, uid: &Uid) -> bool {
        let listed = Arc::clone(&self.listed.borrow());
        let has_ended = match listed.get(uid.as_str()) {
            // What it held is free only when the object is gone.
            Some(pod) => self.after == AfterEviction::Keep && pod.is_torn_down(),
            None => listed.is_complete,
        };
        if !has_ended {
            fault::reach(Point::TeardownAwaited);
            return false;
        }
        let has_volumes = self.places.has_volumes(uid.as_str());
        if has_volumes {
            fault::reach(Point::VolumesAwaited);
        }
        !has_volumes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::cluster::HardPolicy;
    use crate::kube::known::KnownPod;
    use serde_json::json;
    use std::collections::BTreeMap;
    use std::path::Path;
    use tokio::sync::mpsc;

    fn owner(root: &Path, listed: Listed) -> PodOwner {
        let (_, listed) = watch::channel(Arc::new(listed));
        let (reports, answers) = (mpsc::unbounded_channel().0, mpsc::unbounded_channel().1);
        let asks = Asks::new(reports, answers, HardPolicy::Kill, &BTreeMap::new());
        let root = CgroupDir::open(root).unwrap();
        let begun = ["left".to_owned()].into();
        let places = PodPlaces {
            kubelet: root.path().join("kubelet"),
            logs: root.path().join("logs"),
        };
        let after = AfterEviction::Keep;
        PodOwner::new(root, listed, begun, places, after, asks)
    }

    fn listed(phase: &str) -> Listed {
        let pod = json!({"metadata": {"uid": "u1"}, "status": {"phase": phase}});
        let known = KnownPod::of(&serde_json::from_value(pod).unwrap());
        Listed {
            pods: [("u1".to_owned(), Arc::new(known))].into(),
            ..Listed::default()
        }
    }

    #[test]
    fn a_pod_is_found_by_its_uid_in_each_class_and_by_no_other_name() {
        let mount = tempfile::tempdir().unwrap();
        let root = mount.path().join("kubepods");
        for group in ["podu1", "burstable/podu2", "besteffort/podu3/c", "other"] {
            std::fs::create_dir_all(root.join(group)).unwrap();
        }
        let owner = owner(&root, Listed::default());
        let found = |uid: &str| owner.group(&Uid::new(uid), "same-name").map(|g| g.name());
        assert_eq!(found("u1").as_deref(), Some("podu1"));
        assert_eq!(found("u2").as_deref(), Some("podu2"));
        assert_eq!(found("u3").as_deref(), Some("podu3"));
        for nobody in ["u4", "other", "u3/c", "../other"] {
            assert_eq!(found(nobody), None);
        }
    }

    #[test]
    fn a_victim_is_done_with_when_it_is_torn_down_or_gone_from_a_complete_list() {
        let root = tempfile::tempdir().unwrap();
        let complete = Listed {
            is_complete: true,
            ..Listed::default()
        };
        for (listed, expected) in [
            (listed("Running"), false),
            (listed("Failed"), true),
            (Listed::default(), false),
            (complete, true),
        ] {
            let owner = owner(root.path(), listed.clone());
            assert_eq!(owner.is_done_with(&Uid::new("u1")), expected, "{listed:?}");
        }
    }

    #[test]
    fn a_victim_is_not_done_with_as_long_as_it_has_a_volume_on_the_nodes_disk() {
        let root = tempfile::tempdir().unwrap();
        let owner = owner(root.path(), listed("Failed"));
        let volumes = root
            .path()
            .join("kubelet/pods/u1/volumes/kubernetes.io~empty-dir");
        std::fs::create_dir_all(volumes.join("data")).unwrap();
        assert!(!owner.is_done_with(&Uid::new("u1")));
        std::fs::remove_dir(volumes.join("data")).unwrap();
        assert!(owner.is_done_with(&Uid::new("u1")));
    }

    #[test]
    fn a_victim_that_is_to_be_deleted_is_done_with_when_it_is() {
        let root = tempfile::tempdir().unwrap();
        let complete = Listed {
            is_complete: true,
            ..Listed::default()
        };
        for (listed, expected) in [(listed("Failed"), false), (complete, true)] {
            let owner = owner(root.path(), listed);
            let owner = PodOwner {
                after: AfterEviction::Delete,
                ..owner
            };
            assert_eq!(owner.is_done_with(&Uid::new("u1")), expected);
        }
    }

    #[test]
    fn only_a_victim_with_a_record_is_gone_on_with() {
        let root = tempfile::tempdir().unwrap();
        let owner = owner(root.path(), Listed::default());
        assert!(owner.was_begun(&Uid::new("left")));
        assert!(!owner.was_begun(&Uid::new("u1")));
    }
}
