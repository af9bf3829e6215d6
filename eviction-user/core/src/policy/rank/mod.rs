//! The order in which pods would be evicted.
//!
//! Keys are computed once per pod; equal keys keep the order of the snapshot (the kubelet's sort
//! promises nothing there).

mod key;
mod parts;

use std::cmp::{Ordering, Reverse};

use crate::model::{
    Candidate, Criterion, DiskUse, Exclusion, FsLayout, ObservedPod, Outcome, Pod, RankKey,
    Ranking, Resource, Signal, Wishes,
};

pub use key::Measure;
pub use parts::disk_parts;

/// The criteria in the order in which they decide.
///
/// Priority comes after "exceeds its request" for what can be requested, and first for PIDs. Who asks to go first goes before its
/// equals in that: never before one that exceeds its request, if it does not itself.
pub const fn criteria(resource: Resource) -> [Criterion; 5] {
    use Criterion::{ExceedsRequest, MissingStats, OverRequest, Preferred, Priority};
    match resource {
        Resource::Memory | Resource::EphemeralStorage | Resource::Inodes => [
            MissingStats,
            ExceedsRequest,
            Preferred,
            Priority,
            OverRequest,
        ],
        // There is no request, so "over request" is the process count and nobody "exceeds".
        Resource::Pids => [
            Preferred,
            Priority,
            MissingStats,
            OverRequest,
            ExceedsRequest,
        ],
    }
}

/// Ranks pods for a signal as the kubelet does; nobody is chosen yet.
pub fn by_signal(pods: &[ObservedPod], signal: Signal, layout: FsLayout) -> Ranking {
    by_measure(pods, Measure::of_signal(signal, layout))
}

/// The same; where `honors_annotations`, with regard to what pods ask for.
pub fn by_signal_and_wishes(
    pods: &[ObservedPod],
    signal: Signal,
    layout: FsLayout,
    honors_annotations: bool,
) -> Ranking {
    let wishes = |pod: &Pod| Wishes::honoured(pod, honors_annotations);
    ranked(pods, Measure::of_signal(signal, layout), wishes)
}

/// Ranks pods by a measure; nobody is chosen yet.
pub fn by_measure(pods: &[ObservedPod], measure: Measure) -> Ranking {
    ranked(pods, measure, |_| Wishes::default())
}

fn ranked(pods: &[ObservedPod], measure: Measure, wishes: impl Fn(&Pod) -> Wishes) -> Ranking {
    let resource = measure.resource();
    let mut candidates: Vec<_> = pods
        .iter()
        .enumerate()
        .map(|(input, observed)| Candidate {
            pod: observed.pod.clone(),
            input,
            key: key::of(observed, measure, wishes(&observed.pod)),
            outcome: Outcome::NoVictim,
            disk: disk(observed, measure),
        })
        .collect();
    candidates.sort_by(|a, b| compare(resource, &a.key, &b.key).0);
    Ranking {
        resource,
        candidates,
    }
}

/// How a disk figure came about; none of the others is put together.
fn disk(observed: &ObservedPod, measure: Measure) -> Vec<DiskUse> {
    match (measure, &observed.stats) {
        (Measure::DiskBytes(_) | Measure::Inodes(_), Some(stats)) => stats.disk.clone(),
        _ => Vec::new(),
    }
}

/// Chooses the first candidate that `exclude` has no reason against, and notes why the others lost.
pub fn choose(ranking: &mut Ranking, exclude: impl Fn(&Candidate) -> Option<Exclusion>) {
    let mut victim: Option<RankKey> = None;
    for candidate in &mut ranking.candidates {
        candidate.outcome = match (exclude(candidate), victim) {
            (Some(exclusion), _) => Outcome::Excluded(exclusion),
            (None, None) => {
                victim = Some(candidate.key);
                Outcome::Chosen
            }
            (None, Some(victim)) => match compare(ranking.resource, &victim, &candidate.key).1 {
                Some(criterion) => Outcome::Outranked(criterion),
                None => Outcome::Tie,
            },
        };
    }
}

/// Who goes first (`Less`: the left one), and by which criterion; `None` in a tie.
pub fn compare(
    resource: Resource,
    left: &RankKey,
    right: &RankKey,
) -> (Ordering, Option<Criterion>) {
    for criterion in criteria(resource) {
        let order = compare_by(criterion, left, right);
        if order != Ordering::Equal {
            return (order, Some(criterion));
        }
    }
    (Ordering::Equal, None)
}

fn compare_by(criterion: Criterion, left: &RankKey, right: &RankKey) -> Ordering {
    match criterion {
        Criterion::MissingStats => left.has_stats.cmp(&right.has_stats),
        Criterion::ExceedsRequest => {
            Reverse(left.exceeds_request).cmp(&Reverse(right.exceeds_request))
        }
        Criterion::Preferred => Reverse(left.is_preferred).cmp(&Reverse(right.is_preferred)),
        Criterion::Priority => left.priority.cmp(&right.priority),
        Criterion::OverRequest => {
            Reverse(left.over_request_nanos()).cmp(&Reverse(right.over_request_nanos()))
        }
    }
}
