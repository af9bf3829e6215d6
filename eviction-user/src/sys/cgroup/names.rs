//! From a cgroup id, as kernel events carry it, to its name.
//!
//! What exists at the start is learnt by a walk. From then on the kernel's own word about new and removed cgroups is
//! followed where there is one, and a walk repairs the rest: when the feed has lost something, when an id is unknown, and
//! every now and then in any case.

use super::{CgroupDir, CgroupIndex, Change, Hierarchy, subtree};
use crate::model::Timestamp;
use crate::sys::clock;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often without a feed; with one, only what it cannot tell is left to be found: cgroup v1 lets cgroups be renamed.
const RECONCILE: Duration = Duration::from_secs(10);
const RECONCILE_FED: Duration = Duration::from_secs(60);

/// Where changes come from.
pub trait ChangeFeed: Send {
    /// The next change that is there already.
    fn next(&mut self) -> Option<Change>;

    /// Changes that could not be handed over, in all.
    fn lost(&mut self) -> u64;
}

/// Names by id. Keeps those of removed cgroups: an event may be about one that has just gone.
pub struct CgroupNames {
    hierarchy: Hierarchy,
    index: CgroupIndex,
    feed: Option<Box<dyn ChangeFeed>>,
    lost: u64,
    walked: Timestamp,
    /// Asked for since the last walk that was due, and not found: a walk for each of their events would find them no better.
    unknown: BTreeSet<u64>,
}

impl CgroupNames {
    /// Learns what exists now.
    pub fn new(hierarchy: Hierarchy) -> Self {
        let mut names = Self {
            hierarchy,
            index: CgroupIndex::default(),
            feed: None,
            lost: 0,
            walked: clock::now(),
            unknown: BTreeSet::new(),
        };
        names.walk();
        names
    }

    /// From here on `feed` tells of changes.
    pub fn follow(&mut self, feed: Box<dyn ChangeFeed>) {
        self.feed = Some(feed);
        // What came and went before nobody told of.
        self.walk();
    }

    /// Takes in what has changed. Cheap when nothing has: to be called often, so that the feed's buffer never fills.
    pub fn refresh(&mut self) {
        let due = if self.feed.is_some() {
            RECONCILE_FED
        } else {
            RECONCILE
        };
        let mut walk = clock::elapsed_since(self.walked) >= due;
        if let Some(feed) = &mut self.feed {
            while let Some(change) = feed.next() {
                walk |= !self.index.apply(change);
            }
            let lost = feed.lost();
            walk |= lost != self.lost;
            self.lost = lost;
        }
        if walk {
            self.unknown.clear();
            self.walk();
        }
    }

    /// `None`: unknown also after another walk, so made and removed while nobody listened, or outside of what is mounted.
    pub fn name(&mut self, id: u64) -> Option<&str> {
        // No cgroup has this id: whoever asks does not know.
        if id == 0 {
            return None;
        }
        self.refresh();
        if self.index.name(id).is_none() && self.unknown.insert(id) {
            self.walk();
        }
        self.index.name(id)
    }

    /// Changes that the feed lost, each repaired by a walk.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn walk(&mut self) {
        self.walked = clock::now();
        let Ok(root) = CgroupDir::open(&self.hierarchy.mount) else {
            return;
        };
        let found = subtree(&root)
            .iter()
            .map(|group| (group.id(), self.hierarchy.name_of(group.path())))
            .collect();
        self.index.reconcile(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::cgroup::Version;
    use std::collections::VecDeque;
    use std::path::Path;

    fn names(mount: &Path) -> CgroupNames {
        CgroupNames::new(Hierarchy {
            version: Version::V2,
            mount: mount.to_owned(),
            freezer: None,
        })
    }

    fn id(path: &Path) -> u64 {
        CgroupDir::open(path).unwrap().id()
    }

    /// A kernel that tells of these changes and lost so many.
    struct Told(VecDeque<Change>, u64);

    impl ChangeFeed for Told {
        fn next(&mut self) -> Option<Change> {
            self.0.pop_front()
        }

        fn lost(&mut self) -> u64 {
            self.1
        }
    }

    #[test]
    fn a_name_is_known_also_after_the_cgroup_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("kubepods/pod1")).unwrap();
        let mut names = names(dir.path());
        std::fs::create_dir(dir.path().join("late")).unwrap();
        let (pod, late) = (
            id(&dir.path().join("kubepods/pod1")),
            id(&dir.path().join("late")),
        );
        assert_eq!(names.name(late), Some("/late"), "made after the first walk");
        std::fs::remove_dir(dir.path().join("kubepods/pod1")).unwrap();
        assert_eq!(names.name(pod), Some("/kubepods/pod1"));
        assert_eq!(names.name(u64::MAX), None);
    }

    #[test]
    fn one_that_came_and_went_between_two_walks_is_named_by_the_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let mut names = names(dir.path());
        let made = Change::Made {
            id: u64::MAX - 1,
            parent: id(dir.path()),
            name: Some("job".into()),
        };
        let removed = Change::Removed { id: u64::MAX - 1 };
        names.follow(Box::new(Told([made, removed].into(), 0)));
        assert_eq!(names.name(u64::MAX - 1), Some("/job"));
    }

    #[test]
    fn what_the_feed_lost_is_found_by_a_walk_without_being_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut names = names(dir.path());
        names.follow(Box::new(Told(VecDeque::new(), 0)));
        std::fs::create_dir(dir.path().join("short")).unwrap();
        let short = id(&dir.path().join("short"));
        names.feed = Some(Box::new(Told(VecDeque::new(), 3)));
        names.refresh();
        assert_eq!((names.index.name(short), names.lost()), (Some("/short"), 3));
    }
}
