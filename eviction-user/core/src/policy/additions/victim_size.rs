//! A size below which evicting a pod would not help.

use crate::model::{RankKey, Resource};

/// Least use of a resource that makes a pod worth evicting, in the resource's own unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MinVictimSize {
    pub memory: Option<u64>,
    pub disk_bytes: Option<u64>,
    pub inodes: Option<u64>,
    pub processes: Option<u64>,
}

impl MinVictimSize {
    /// Whether a candidate is too small. One without stats is not: its size is unknown.
    pub fn excludes(&self, resource: Resource, key: &RankKey) -> bool {
        let least = match resource {
            Resource::Memory => self.memory,
            Resource::EphemeralStorage => self.disk_bytes,
            Resource::Inodes => self.inodes,
            Resource::Pids => self.processes,
        };
        least.is_some_and(|least| key.has_stats && key.usage < i128::from(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: RankKey = RankKey {
        has_stats: true,
        exceeds_request: true,
        is_preferred: false,
        priority: 0,
        usage: 99,
        request_nanos: 0,
    };

    #[test]
    fn only_a_known_use_below_the_minimum_of_that_resource_excludes() {
        let minimum = MinVictimSize {
            memory: Some(100),
            ..MinVictimSize::default()
        };
        assert!(minimum.excludes(Resource::Memory, &SMALL));
        assert!(!minimum.excludes(
            Resource::Memory,
            &RankKey {
                usage: 100,
                ..SMALL
            }
        ));
        assert!(!minimum.excludes(
            Resource::Memory,
            &RankKey {
                has_stats: false,
                ..SMALL
            }
        ));
        assert!(!minimum.excludes(Resource::Pids, &SMALL));
        assert!(!MinVictimSize::default().excludes(Resource::Memory, &SMALL));
    }
}
