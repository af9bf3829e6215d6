//! Cgroups of pods that the API does not tell of. For a moment that is in the order of things, as the two come on different ways;
//! one that stays so is told once: nobody evicts it, whatever it uses. Pure.

use crate::model::{Span, Timestamp, Uid};
use std::collections::BTreeMap;

/// The API is a second behind, or half a minute while it is away and comes back.
const IN_ORDER: Span = Span::from_secs(60);

#[derive(Debug, Default)]
pub(super) struct Unmapped {
    /// Since when, and whether it was told.
    since: BTreeMap<Uid, (Timestamp, bool)>,
}

impl Unmapped {
    /// `found`: all of now. Returns those that are to be told.
    pub(super) fn note(&mut self, found: Vec<Uid>, now: Timestamp) -> Vec<Uid> {
        let mut before = std::mem::take(&mut self.since);
        let mut told = Vec::new();
        for uid in found {
            let (since, was_told) = before.remove(&uid).unwrap_or((now, false));
            let is_due = now >= since.plus(IN_ORDER);
            if is_due && !was_told {
                told.push(uid.clone());
            }
            self.since.insert(uid, (since, was_told || is_due));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_stays_unknown_is_told_once_and_again_only_when_it_was_known_in_between() {
        let mut unmapped = Unmapped::default();
        let mut at = |seconds, uids: &[&str]| {
            let found = uids.iter().map(|uid| Uid::new(*uid)).collect();
            let told = unmapped.note(found, Timestamp::from_secs(seconds));
            told.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(at(0, &["a"]).is_empty());
        assert!(at(59, &["a", "b"]).is_empty());
        assert_eq!(at(60, &["a", "b"]), ["a"]);
        assert_eq!(at(119, &["a", "b"]), ["b"]);
        assert!(at(120, &["b"]).is_empty());
        assert!(at(130, &["a", "b"]).is_empty());
        assert_eq!(at(190, &["a", "b"]), ["a"]);
    }
}
