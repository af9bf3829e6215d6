//! Memory that removed cgroups still hold comes back by itself, and killing the living does not hurry it
//! (user case 18).

use crate::model::{Hold, Resource, Summary};

/// Why a memory eviction is held back, if it is. An unknown number holds nothing back: cgroup v1 does not
/// tell it, and a guard that cannot see must not leave the node to the OOM killer.
pub fn hold(most: Option<u64>, resource: Resource, summary: &Summary) -> Option<Hold> {
    let (most, dying) = (most?, summary.dying_cgroups?);
    (resource == Resource::Memory && dying > most).then_some(Hold::DyingCgroups { most, dying })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(most: Option<u64>, resource: Resource, dying: Option<u64>) -> bool {
        let summary = Summary {
            dying_cgroups: dying,
            ..Summary::default()
        };
        hold(most, resource, &summary).is_some()
    }

    #[test]
    fn case_18_more_dying_cgroups_than_allowed_hold_memory_evictions() {
        assert!(held(Some(100), Resource::Memory, Some(101)));
        assert!(!held(Some(100), Resource::Memory, Some(100)));
        assert!(!held(Some(100), Resource::Inodes, Some(101)));
    }

    #[test]
    fn it_is_off_by_default_and_an_unknown_number_holds_nothing() {
        assert!(!held(None, Resource::Memory, Some(u64::MAX)));
        assert!(!held(Some(0), Resource::Memory, None));
    }
}
