//! Which cgroups there are and were, by id. Pure: what the kernel tells of comes in as [`Change`]s, what a walk found as
//! a whole.
//!
//! An id is never given to another cgroup while the kernel runs: `kernfs_new_node()` (5.5 and later, 64 bits) counts a
//! generation up whenever its 32-bit numbers start anew. A cgroup made again under an old name is therefore another one,
//! and what was counted for the old id stays with the old id.

use std::collections::{BTreeMap, VecDeque};

/// Names of removed cgroups are kept for events that are still under way, the oldest go first.
const REMOVED_KEPT: usize = 4096;

/// What the kernel says about its cgroups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `name` is its own name within `parent`; `None` where the kernel's was too long for the event.
    Made {
        id: u64,
        parent: u64,
        name: Option<String>,
    },
    Removed {
        id: u64,
    },
}

#[derive(Debug, Default)]
pub struct CgroupIndex {
    known: BTreeMap<u64, Known>,
    removed: VecDeque<u64>,
}

#[derive(Debug)]
struct Known {
    name: String,
    live: bool,
}

impl CgroupIndex {
    pub fn name(&self, id: u64) -> Option<&str> {
        self.known.get(&id).map(|known| known.name.as_str())
    }

    /// Exists, as far as has been heard.
    pub fn is_live(&self, id: u64) -> bool {
        self.known.get(&id).is_some_and(|known| known.live)
    }

    /// False: only a walk can tell what this cgroup is called.
    pub fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Made { id, parent, name } => {
                let (Some(above), Some(name)) = (self.name(parent), name) else {
                    return false;
                };
                let name = format!("{}/{name}", above.trim_end_matches('/'));
                self.add(id, name);
                true
            }
            Change::Removed { id } => {
                self.remove(id);
                true
            }
        }
    }

    /// Takes in everything that a walk found.
    pub fn reconcile(&mut self, found: BTreeMap<u64, String>) {
        let gone: Vec<u64> = self
            .known
            .iter()
            .filter(|(id, known)| known.live && !found.contains_key(id))
            .map(|(id, _)| *id)
            .collect();
        gone.into_iter().for_each(|id| self.remove(id));
        for (id, name) in found {
            self.add(id, name);
        }
    }

    fn add(&mut self, id: u64, name: String) {
        let known = Known { name, live: true };
        if self
            .known
            .insert(id, known)
            .is_some_and(|before| !before.live)
        {
            self.removed.retain(|removed| *removed != id);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(known) = self.known.get_mut(&id).filter(|known| known.live) else {
            return;
        };
        known.live = false;
        self.removed.push_back(id);
        if self.removed.len() > REMOVED_KEPT
            && let Some(oldest) = self.removed.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(id: u64, parent: u64, name: &str) -> Change {
        Change::Made {
            id,
            parent,
            name: Some(name.into()),
        }
    }

    fn index() -> CgroupIndex {
        let mut index = CgroupIndex::default();
        index.reconcile([(1, "/".into()), (5, "/kubepods".into())].into());
        index
    }

    #[test]
    fn a_new_cgroup_is_named_after_its_parent() {
        let mut index = index();
        assert!(index.apply(made(7, 5, "pod1")) && index.apply(made(8, 7, "app")));
        assert!(index.apply(made(9, 1, "user.slice")));
        assert_eq!(index.name(8), Some("/kubepods/pod1/app"));
        assert_eq!(index.name(9), Some("/user.slice"));
    }

    #[test]
    fn one_below_an_unknown_parent_or_with_too_long_a_name_needs_a_walk() {
        let mut index = index();
        assert!(!index.apply(made(70, 60, "x")));
        assert!(!index.apply(Change::Made {
            id: 71,
            parent: 5,
            name: None
        }));
        assert_eq!((index.name(70), index.name(71)), (None, None));
    }

    #[test]
    fn a_removed_cgroup_keeps_its_name_and_one_made_again_is_another() {
        let mut index = index();
        index.apply(made(7, 5, "pod1"));
        index.apply(Change::Removed { id: 7 });
        assert_eq!(
            (index.name(7), index.is_live(7)),
            (Some("/kubepods/pod1"), false)
        );
        index.apply(made(8, 5, "pod1"));
        assert_eq!(index.name(8), index.name(7));
        assert!(index.is_live(8) && !index.is_live(7));
    }

    #[test]
    fn a_walk_repairs_what_no_change_told_of() {
        let mut index = index();
        index.reconcile([(1, "/".into()), (6, "/late".into())].into());
        assert!(!index.is_live(5) && index.is_live(6));
        assert_eq!(index.name(5), Some("/kubepods"));
        index.reconcile([(1, "/".into()), (6, "/renamed".into())].into());
        assert_eq!(index.name(6), Some("/renamed"));
    }

    #[test]
    fn only_the_latest_removed_ones_are_remembered() {
        let mut index = index();
        let last = 100 + REMOVED_KEPT as u64;
        for id in 100..=last {
            index.apply(made(id, 1, "x"));
            index.apply(Change::Removed { id });
        }
        assert_eq!((index.name(100), index.name(101)), (None, Some("/x")));
        assert_eq!(index.known.len(), REMOVED_KEPT + 2);
    }
}
