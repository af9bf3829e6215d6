//! Are the OOM kills that events told of those that the kernel counted? Both come from the kernel, by different ways: what
//! one of them misses, the other shows (user case 13).

use crate::ports::OomMismatch;
use std::collections::BTreeMap;

/// Keys are cgroup ids; [`NODE`] is the whole node.
type Counts = BTreeMap<u64, u64>;

const NODE: u64 = 0;

#[derive(Debug, Default)]
pub(super) struct OomLedger {
    /// What had been counted when this began.
    base: Option<Counts>,
    seen: Counts,
    /// A victim was seen since the last comparison.
    news: bool,
    /// The node's count at the last comparison.
    node: Option<u64>,
    differences: BTreeMap<u64, Difference>,
}

/// Counted minus seen.
#[derive(Debug, Default, Clone, Copy)]
struct Difference {
    last: i64,
    told: i64,
}

impl OomLedger {
    /// An event told of a victim in this cgroup; 0 if in which is unknown.
    pub(super) fn saw(&mut self, cgroup: u64) {
        // Whatever had happened before the first count is in that count.
        if self.base.is_none() {
            return;
        }
        self.news = true;
        *self.seen.entry(NODE).or_default() += 1;
        if cgroup != NODE {
            *self.seen.entry(cgroup).or_default() += 1;
        }
    }

    /// Could a comparison find anything? All cgroups' counts cost a walk; the node's is one small file (`None`: unreadable).
    pub(super) fn has_reason(&self, node: Option<u64>) -> bool {
        let mut differences = self.differences.values();
        node.is_none()
            || node != self.node
            || self.news
            || !differences.all(|difference| difference.last == difference.told)
    }

    /// Compares with what the kernel has counted by now. The kernel counts first and tells then (`__oom_kill_process()`), so
    /// a difference means something only if the next comparison finds it too. Each is answered once.
    pub(super) fn compare(&mut self, counted: &Counts) -> Vec<OomMismatch> {
        self.news = false;
        self.node = counted.get(&NODE).copied();
        let Some(base) = &self.base else {
            self.base = Some(counted.clone());
            return Vec::new();
        };
        let since = |id: &u64| {
            let before = base.get(id).copied().unwrap_or(0);
            let now = counted.get(id).copied().unwrap_or(before);
            now.saturating_sub(before)
        };
        let mut found = Vec::new();
        let mut explained = 0;
        // The node comes last: it is told only of what its cgroups do not explain.
        for id in counted.keys().filter(|id| **id != NODE).chain([&NODE]) {
            let (since, seen) = (since(id), self.seen.get(id).copied().unwrap_or(0));
            let mut now = since.cast_signed() - seen.cast_signed();
            if *id == NODE {
                now -= explained;
            } else {
                explained += now;
            }
            let difference = self.differences.entry(*id).or_default();
            if now == difference.last && now != difference.told {
                difference.told = now;
                if now != 0 {
                    found.push(OomMismatch {
                        cgroup: *id,
                        counted: since,
                        seen,
                    });
                }
            }
            difference.last = now;
        }
        // A removed cgroup's count is gone, and its id never comes back.
        self.seen.retain(|id, _| counted.contains_key(id));
        self.differences.retain(|id, _| counted.contains_key(id));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(node: u64, groups: &[(u64, u64)]) -> Counts {
        groups.iter().copied().chain([(NODE, node)]).collect()
    }

    fn mismatch(cgroup: u64, counted: u64, seen: u64) -> OomMismatch {
        OomMismatch {
            cgroup,
            counted,
            seen,
        }
    }

    #[test]
    fn kills_that_were_both_seen_and_counted_are_no_mismatch() {
        let mut ledger = OomLedger::default();
        ledger.saw(7);
        assert_eq!(ledger.compare(&counted(5, &[(7, 2)])), []);
        ledger.saw(7);
        ledger.saw(8);
        for _ in 0..3 {
            assert_eq!(ledger.compare(&counted(7, &[(7, 3), (8, 1)])), []);
        }
    }

    #[test]
    fn a_kill_that_no_event_told_of_is_told_once_and_only_when_it_stays() {
        let mut ledger = OomLedger::default();
        ledger.compare(&counted(0, &[(7, 0)]));
        let now = counted(1, &[(7, 1)]);
        assert_eq!(ledger.compare(&now), [], "the event may be under way");
        assert_eq!(ledger.compare(&now), [mismatch(7, 1, 0)]);
        assert_eq!(ledger.compare(&now), []);
        let more = counted(2, &[(7, 2)]);
        ledger.compare(&more);
        assert_eq!(ledger.compare(&more), [mismatch(7, 2, 0)]);
    }

    #[test]
    fn an_event_that_comes_a_little_late_is_no_mismatch() {
        let mut ledger = OomLedger::default();
        ledger.compare(&counted(0, &[]));
        let now = counted(1, &[(9, 1)]);
        assert_eq!(ledger.compare(&now), []);
        ledger.saw(9);
        assert_eq!(ledger.compare(&now), []);
        assert_eq!(ledger.compare(&now), []);
    }

    #[test]
    fn counts_are_asked_for_only_when_something_happened_until_it_is_settled() {
        let mut ledger = OomLedger::default();
        assert!(
            ledger.has_reason(Some(4)),
            "there is nothing to compare with yet"
        );
        ledger.compare(&counted(4, &[(7, 0)]));
        assert!(!ledger.has_reason(Some(4)));
        assert!(ledger.has_reason(Some(5)) && ledger.has_reason(None));
        ledger.saw(7);
        assert!(ledger.has_reason(Some(4)));
        ledger.compare(&counted(5, &[(7, 1)]));
        assert!(!ledger.has_reason(Some(5)), "both agree");
        ledger.compare(&counted(6, &[(7, 2)]));
        assert!(ledger.has_reason(Some(6)), "the event may be under way");
        assert_eq!(ledger.compare(&counted(6, &[(7, 2)])), [mismatch(7, 2, 1)]);
        assert!(!ledger.has_reason(Some(6)), "it has been told");
    }

    #[test]
    fn a_kill_outside_of_the_watched_cgroups_shows_on_the_node() {
        let mut ledger = OomLedger::default();
        ledger.compare(&counted(3, &[(7, 0)]));
        let now = counted(4, &[(7, 0)]);
        ledger.compare(&now);
        assert_eq!(ledger.compare(&now), [mismatch(NODE, 1, 0)]);
    }

    #[test]
    fn a_victim_that_was_exiting_already_is_seen_and_not_counted() {
        let mut ledger = OomLedger::default();
        let still = counted(0, &[(7, 0)]);
        ledger.compare(&still);
        ledger.saw(7);
        ledger.compare(&still);
        assert_eq!(ledger.compare(&still), [mismatch(7, 0, 1)]);
    }

    #[test]
    fn a_removed_cgroup_takes_its_figures_along() {
        let mut ledger = OomLedger::default();
        ledger.compare(&counted(0, &[(7, 0)]));
        ledger.saw(7);
        for _ in 0..3 {
            assert_eq!(ledger.compare(&counted(1, &[])), []);
        }
        assert!(!ledger.seen.contains_key(&7));
    }
}
