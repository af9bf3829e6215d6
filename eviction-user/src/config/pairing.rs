//! Two evictors on one node: to whose line a signal comes first, ours or the kubelet's. Pure.

use super::effective::Effective;
use super::fs_paths;
use super::origin::Origin;
use super::pods;
use crate::model::{Limit, Signal, Threshold};
use crate::policy::limit;
use crate::policy::thresholds::parse::Source;
use std::cmp::Ordering;

/// Of memory, from our line down to the kubelet's: what is allocated while a victim dies (measured with a hog of 1 GiB/s beside a
/// kubelet with its notifier on: `kubernetes-facts.md`).
pub const MEMORY_GAP: i64 = 100 << 20;

/// A hard threshold as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub origin: Origin,
    /// In the signal's unit; `None`: a part of nobody knows what.
    pub amount: Option<i64>,
}

/// A signal that both watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub signal: Signal,
    pub ours: Line,
    pub kubelets: Line,
    /// `Greater`: what is available comes down to ours first. `None`: that cannot be told.
    pub order: Option<Ordering>,
}

impl Pair {
    /// From one line to the other.
    pub fn gap(&self) -> Option<i64> {
        Some(self.ours.amount? - self.kubelets.amount?)
    }

    /// Whether they keep out of each other's way. Of disks the kubelet comes first: it removes unused images before it evicts.
    pub fn is_recommended(&self) -> Option<bool> {
        if self.signal.resource() == crate::model::Resource::Memory {
            return self.gap().map(|gap| gap >= MEMORY_GAP);
        }
        let first = if fs_paths::flag(self.signal).is_some() {
            Ordering::Less
        } else {
            Ordering::Greater
        };
        self.order.map(|order| order == first)
    }
}

/// `capacity`: of a signal, where it is known.
pub fn pairs(
    ours: &Effective,
    kubelets: &Effective,
    capacity: impl Fn(Signal) -> Option<i64>,
) -> Vec<Pair> {
    let pair = |signal: Signal| {
        let capacity = capacity(signal);
        let own = hard(ours, signal).filter(|threshold| pods::is_ours(ours, threshold))?;
        let other = hard(kubelets, signal)?;
        // For all pods together both may have a copy of the node's line: that has been compared.
        let is_written = |settings: &Effective| settings.hard.entries.contains_key(signal.name());
        if !is_written(ours) && !is_written(kubelets) {
            return None;
        }
        let (mine, its) = (line(ours, own, capacity), line(kubelets, other, capacity));
        let order = match (mine.amount.zip(its.amount), &own.limit, &other.limit) {
            (Some((mine, its)), ..) => Some(mine.cmp(&its)),
            (None, Limit::Percentage(mine), Limit::Percentage(its)) => mine.partial_cmp(its),
            _ => None,
        };
        Some(Pair {
            signal,
            ours: mine,
            kubelets: its,
            order,
        })
    };
    Signal::ALL.into_iter().filter_map(pair).collect()
}

fn hard(settings: &Effective, signal: Signal) -> Option<&Threshold> {
    let mut thresholds = settings.thresholds.iter();
    thresholds.find(|threshold| threshold.signal == signal && threshold.is_hard())
}

fn line(settings: &Effective, threshold: &Threshold, capacity: Option<i64>) -> Line {
    let map = settings.map(Source::Hard);
    // The one for all pods together is a copy of the node's.
    let names = [threshold.signal, Signal::MemoryAvailable].map(Signal::name);
    let entry = names.iter().find_map(|name| map.entries.get(*name));
    Line {
        text: entry.map_or(String::new(), |entry| entry.value.clone()),
        origin: entry.map_or(&map.origin, |entry| &entry.origin).clone(),
        amount: match &threshold.limit {
            Limit::Quantity(quantity) => Some(quantity.value()),
            part @ Limit::Percentage(_) => capacity.map(|all| limit::effective(part, all).value()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::EvictionFlags;

    fn settings(hard: &str) -> Effective {
        let flags = EvictionFlags {
            hard: Some(hard.to_owned()),
            ..EvictionFlags::default()
        };
        Effective::load(None, &flags).unwrap()
    }

    /// Of the first signal: the order, the distance in MiB, and whether it is well.
    fn of(ours: &str, kubelets: &str) -> (Option<Ordering>, Option<i64>, Option<bool>) {
        let capacity = |signal| (signal == Signal::MemoryAvailable).then_some(1 << 30);
        let pairs = pairs(&settings(ours), &settings(kubelets), capacity);
        let pair = pairs.first().unwrap();
        let gap = pair.gap().map(|gap| gap >> 20);
        (pair.order, gap, pair.is_recommended())
    }

    #[test]
    fn who_comes_first_by_how_much_and_whether_that_is_well() {
        use Ordering::{Equal, Greater, Less};
        let mib = "memory.available<200Mi";
        for (ours, kubelets, order, gap, well) in [
            (
                mib,
                "memory.available<100Mi",
                Some(Greater),
                Some(100),
                Some(true),
            ),
            (
                mib,
                "memory.available<101Mi",
                Some(Greater),
                Some(99),
                Some(false),
            ),
            (mib, mib, Some(Equal), Some(0), Some(false)),
            (
                mib,
                "memory.available<1Gi",
                Some(Less),
                Some(-824),
                Some(false),
            ),
            (
                "memory.available<50%",
                "memory.available<25%",
                Some(Greater),
                Some(256),
                Some(true),
            ),
            // Of what nobody knows the size of
            (
                "pid.available<10%",
                "pid.available<5%",
                Some(Greater),
                None,
                Some(true),
            ),
            (
                "pid.available<5%",
                "pid.available<5%",
                Some(Equal),
                None,
                Some(false),
            ),
            ("pid.available<10%", "pid.available<500", None, None, None),
            // The kubelet removes images first.
            (
                "nodefs.available<5%",
                "nodefs.available<10%",
                Some(Less),
                None,
                Some(true),
            ),
            (
                "nodefs.available<10%",
                "nodefs.available<10%",
                Some(Equal),
                None,
                Some(false),
            ),
        ] {
            assert_eq!(of(ours, kubelets), (order, gap, well), "{ours}, {kubelets}");
        }
    }

    #[test]
    fn only_what_both_watch_is_compared_and_all_pods_together_by_the_nodes_line() {
        let none = EvictionFlags::default();
        let defaults = Effective::load(None, &none).unwrap();
        let found = pairs(&defaults, &defaults, |_| None);
        let signals: Vec<_> = found.iter().map(|pair| pair.signal).collect();
        // The disks' defaults are the kubelet's alone.
        assert_eq!(signals, [Signal::MemoryAvailable]);
        let own = settings("memory.available<1Gi,allocatableMemory.available<400Mi");
        let found = pairs(&own, &defaults, |_| None);
        let pods = found.last().unwrap();
        assert_eq!(pods.signal, Signal::AllocatableMemoryAvailable);
        assert_eq!((&*pods.ours.text, &*pods.kubelets.text), ("400Mi", "100Mi"));
        assert!(pairs(&settings("pid.available<5%"), &defaults, |_| None).is_empty());
    }
}
