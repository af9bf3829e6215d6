//! Laws of the ranking.

use std::cmp::Ordering;

use eviction_core::model::{FsStats, ObservedPod, RankKey, Ranking, Signal};
use eviction_core::policy::rank;
use proptest::prelude::*;

use super::generate::{layout, pods, signal};

fn keys(ranking: &Ranking) -> Vec<RankKey> {
    ranking
        .candidates
        .iter()
        .map(|candidate| candidate.key)
        .collect()
}

fn inputs(ranking: &Ranking) -> Vec<usize> {
    ranking
        .candidates
        .iter()
        .map(|candidate| candidate.input)
        .collect()
}

/// Makes a pod use one more of everything.
fn use_more(observed: &mut ObservedPod) {
    let more = |amount: &mut Option<u64>| *amount = Some(amount.unwrap_or(0).saturating_add(1));
    let more_disk = |fs: &mut Option<FsStats>| {
        let fs = fs.get_or_insert_default();
        more(&mut fs.used);
        more(&mut fs.inodes_used);
    };
    let Some(stats) = &mut observed.stats else {
        return;
    };
    more(&mut stats.memory.get_or_insert_default().working_set);
    more(&mut stats.process_count);
    stats
        .containers
        .iter_mut()
        .for_each(|container| more_disk(&mut container.rootfs));
}

/// Whether adding one to any amount keeps its sign when read as signed, as the kubelet reads them.
fn is_below_the_wrap(observed: &ObservedPod) -> bool {
    let below = |amount: Option<u64>| {
        amount.is_none_or(|amount| amount != i64::MAX as u64 && amount != u64::MAX)
    };
    let disk = |fs: &Option<FsStats>| fs.is_none_or(|fs| below(fs.used) && below(fs.inodes_used));
    observed.stats.as_ref().is_none_or(|stats| {
        below(stats.memory.and_then(|memory| memory.working_set))
            && below(stats.process_count)
            && stats
                .containers
                .iter()
                .all(|container| disk(&container.rootfs))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_order_is_total_and_every_pod_appears_once(pods in pods(), signal in signal(), layout in layout()) {
        let ranking = rank::by_signal(&pods, signal, layout);
        let mut seen = inputs(&ranking);
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..pods.len()).collect::<Vec<_>>());
        let keys = keys(&ranking);
        for (position, left) in keys.iter().enumerate() {
            for right in &keys[position..] {
                let (order, criterion) = rank::compare(ranking.resource, left, right);
                prop_assert_ne!(order, Ordering::Greater);
                prop_assert_eq!(rank::compare(ranking.resource, right, left), (order.reverse(), criterion));
            }
        }
    }

    #[test]
    fn annotations_that_are_not_honoured_change_nothing(
        pods in pods(),
        asked in prop::collection::vec(("protect|prefer|memory-threshold", "true|1|x|"), 8),
        signal in signal(),
        layout in layout(),
    ) {
        let mut asking = pods.clone();
        for (observed, (key, value)) in asking.iter_mut().zip(asked) {
            let pod = std::sync::Arc::make_mut(&mut observed.pod);
            pod.annotations.insert(format!("eviction.dev/{key}"), value);
        }
        let kubelets = rank::by_signal(&pods, signal, layout);
        let ours = rank::by_signal_and_wishes(&asking, signal, layout, false);
        prop_assert_eq!(keys(&ours), keys(&kubelets));
        prop_assert_eq!(inputs(&ours), inputs(&kubelets));
    }

    #[test]
    fn the_order_is_stable(pods in pods(), signal in signal(), layout in layout()) {
        let ranking = rank::by_signal(&pods, signal, layout);
        for pair in ranking.candidates.windows(2) {
            if rank::compare(ranking.resource, &pair[0].key, &pair[1].key).0 == Ordering::Equal {
                prop_assert!(pair[0].input < pair[1].input);
            }
        }
    }

    #[test]
    fn the_order_of_the_input_changes_nothing_but_true_ties(
        (pods, shuffled) in pods().prop_flat_map(|pods| (Just(pods.clone()), Just(pods).prop_shuffle())),
        signal in signal(),
        layout in layout(),
    ) {
        let one = rank::by_signal(&pods, signal, layout);
        let other = rank::by_signal(&shuffled, signal, layout);
        for (left, right) in keys(&one).iter().zip(&keys(&other)) {
            prop_assert_eq!(rank::compare(one.resource, left, right).0, Ordering::Equal);
        }
    }

    #[test]
    fn a_pod_that_uses_more_never_moves_back(
        pods in pods(),
        which in any::<prop::sample::Index>(),
        signal in signal(),
        layout in layout(),
    ) {
        prop_assume!(!pods.is_empty());
        let which = which.index(pods.len());
        prop_assume!(is_below_the_wrap(&pods[which]));
        let mut hungrier = pods.clone();
        use_more(&mut hungrier[which]);
        let place = |pods: &[ObservedPod]| inputs(&rank::by_signal(pods, signal, layout)).iter().position(|i| *i == which);
        prop_assert!(place(&hungrier) <= place(&pods));
    }

    #[test]
    fn exactly_one_candidate_is_chosen_unless_all_are_excluded(pods in pods(), odd in any::<bool>()) {
        use eviction_core::model::{Exclusion, Outcome};
        let mut ranking = rank::by_signal(&pods, Signal::MemoryAvailable, Default::default());
        rank::choose(&mut ranking, |candidate| (odd && candidate.input % 2 == 0).then_some(Exclusion::Critical));
        let chosen: Vec<_> = ranking.candidates.iter().filter(|c| c.outcome == Outcome::Chosen).collect();
        let first = ranking.candidates.iter().find(|c| !odd || c.input % 2 == 1);
        prop_assert_eq!(chosen, first.into_iter().collect::<Vec<_>>());
    }
}
