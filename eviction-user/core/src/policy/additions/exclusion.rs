//! Who may not be evicted, and why.

use std::collections::BTreeMap;

use super::super::{critical, rank};
use super::Additions;
use crate::model::{
    Candidate, Exclusion, Outcome, Pod, Protection, Ranking, Resource, Timestamp, Uid, Wishes,
    annotation,
};

/// Candidates whose kill failed, and until when they are passed over.
pub type BackedOff = BTreeMap<Uid, Timestamp>;

/// Candidates whose end was refused by somebody who had to be asked. Unlike those of a kill that failed they do not have their turn
/// before their time, not even when nobody else is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Refused(BTreeMap<Uid, Refusal>);

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Refusal {
    until: Timestamp,
    /// To a soft threshold, which says nothing of what a hard one may do.
    is_soft: bool,
}

impl Refused {
    pub fn put(&mut self, uid: Uid, until: Timestamp, is_soft: bool) {
        self.0.insert(uid, Refusal { until, is_soft });
    }

    /// `is_short`: a hard threshold is met.
    pub fn forget(&mut self, now: Timestamp, is_short: bool) {
        self.0
            .retain(|_, refusal| refusal.until > now && !(refusal.is_soft && is_short));
    }

    fn has(&self, uid: &Uid) -> bool {
        self.0.contains_key(uid)
    }
}

/// All reasons against evicting a pod, the kubelet's own first.
#[derive(Debug, Clone, Copy)]
pub struct Exclusions<'a> {
    pub additions: &'a Additions,
    pub backed_off: &'a BackedOff,
    pub refused: &'a Refused,
}

impl Exclusions<'_> {
    /// Reasons that do not depend on a ranking.
    pub fn of_pod(&self, pod: &Pod) -> Option<Exclusion> {
        self.lasting(pod).or_else(|| {
            self.backed_off
                .contains_key(&pod.uid)
                .then_some(Exclusion::BackedOff)
        })
    }

    /// Chooses the victim of a ranking. If backing off leaves nobody, the first of those backed off
    /// has its turn again: another try is better than none.
    pub fn choose(&self, ranking: &mut Ranking) {
        let resource = ranking.resource;
        rank::choose(ranking, |candidate| {
            self.of_candidate(resource, candidate).or_else(|| {
                self.backed_off
                    .contains_key(&candidate.pod.uid)
                    .then_some(Exclusion::BackedOff)
            })
        });
        let is_backed_off =
            |candidate: &Candidate| candidate.outcome == Outcome::Excluded(Exclusion::BackedOff);
        if ranking.victim().is_none() && ranking.candidates.iter().any(is_backed_off) {
            rank::choose(ranking, |candidate| self.of_candidate(resource, candidate));
        }
    }

    fn of_candidate(&self, resource: Resource, candidate: &Candidate) -> Option<Exclusion> {
        self.lasting(&candidate.pod).or_else(|| {
            let is_small = self
                .additions
                .min_victim_size
                .excludes(resource, &candidate.key);
            is_small.then_some(Exclusion::TooSmall)
        })
    }

    fn lasting(&self, pod: &Pod) -> Option<Exclusion> {
        if critical::is_critical(pod) {
            return Some(Exclusion::Critical);
        }
        if self.refused.has(&pod.uid) {
            return Some(Exclusion::Refused);
        }
        let protection = self.additions.protection.of(pod).or_else(|| {
            let wishes = Wishes::honoured(pod, self.additions.honor_annotations);
            let rule = || Protection::Configured(format!("annotation {}", annotation::PROTECT));
            wishes.protect.then(rule)
        });
        protection.map(Exclusion::Protected)
    }
}
