//! How fast evictions may follow each other: a cool-down, and a cap per hour.

use std::collections::VecDeque;

use crate::model::{Hold, Span, Timestamp, Uid};

const HOUR: Span = Span::from_secs(3_600);

/// Recent evictions, and the limits they are held to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pace {
    cool_down: Option<Span>,
    cap: Option<u32>,
    /// Oldest first; only as many as the limits need.
    recent: VecDeque<(Timestamp, Uid)>,
}

impl Pace {
    pub fn new(cool_down: Option<Span>, cap: Option<u32>) -> Self {
        Self {
            cool_down,
            cap,
            recent: VecDeque::new(),
        }
    }

    pub fn record(&mut self, uid: Uid, now: Timestamp) {
        if self.cool_down.is_none() && self.cap.is_none() {
            return;
        }
        let keep = self.cool_down.unwrap_or(Span::ZERO).max(HOUR);
        self.recent.retain(|(at, _)| now.since(*at) < keep);
        self.recent.push_back((now, uid));
    }

    /// A kill that failed took nobody away, so it does not count.
    pub fn revoke(&mut self, uid: &Uid) {
        if let Some(position) = self
            .recent
            .iter()
            .rposition(|(_, recorded)| recorded == uid)
        {
            self.recent.remove(position);
        }
    }

    /// Why the next eviction has to wait, if it has to.
    pub fn hold(&self, now: Timestamp) -> Option<Hold> {
        if let (Some(cool_down), Some((last, _))) = (self.cool_down, self.recent.back()) {
            let left = last.plus(cool_down).since(now);
            if left > Span::ZERO {
                return Some(Hold::CoolDown { left });
            }
        }
        let cap = self.cap?;
        if self.room(now) > 0 {
            return None;
        }
        // Of those that fill the cap the oldest has to leave the hour; a cap of zero never ends.
        let oldest = (cap as usize)
            .checked_sub(1)
            .and_then(|newer| self.recent.iter().rev().nth(newer));
        let left = oldest.map_or(HOUR, |(at, _)| at.plus(HOUR).since(now));
        Some(Hold::HourlyCap { cap, left })
    }

    /// How many more evictions the cap allows.
    pub fn room(&self, now: Timestamp) -> usize {
        let Some(cap) = self.cap else {
            return usize::MAX;
        };
        let in_last_hour = self
            .recent
            .iter()
            .filter(|(at, _)| now.since(*at) < HOUR)
            .count();
        (cap as usize).saturating_sub(in_last_hour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[test]
    fn a_cool_down_holds_until_it_is_over() {
        let mut pace = Pace::new(Some(Span::from_secs(60)), None);
        assert_eq!(pace.hold(at(0)), None);
        pace.record(Uid::new("a"), at(0));
        assert_eq!(
            pace.hold(at(59)),
            Some(Hold::CoolDown {
                left: Span::from_secs(1)
            })
        );
        assert_eq!(pace.hold(at(60)), None);
    }

    #[test]
    fn the_cap_counts_the_last_hour_and_says_when_there_is_room() {
        let mut pace = Pace::new(None, Some(2));
        pace.record(Uid::new("a"), at(0));
        assert_eq!(pace.room(at(0)), 1);
        pace.record(Uid::new("b"), at(100));
        assert_eq!(
            pace.hold(at(100)),
            Some(Hold::HourlyCap {
                cap: 2,
                left: Span::from_secs(3_500)
            })
        );
        assert_eq!(pace.hold(at(3_600)), None);
    }

    #[test]
    fn a_failed_kill_does_not_count() {
        let mut pace = Pace::new(Some(Span::from_secs(60)), Some(1));
        pace.record(Uid::new("a"), at(0));
        pace.revoke(&Uid::new("a"));
        assert_eq!(pace.hold(at(1)), None);
    }

    #[test]
    fn a_cap_of_zero_allows_nobody_and_a_long_cool_down_outlasts_the_hour() {
        assert_eq!(
            Pace::new(None, Some(0)).hold(at(0)),
            Some(Hold::HourlyCap { cap: 0, left: HOUR })
        );
        let mut pace = Pace::new(Some(Span::from_secs(7_200)), None);
        pace.record(Uid::new("a"), at(0));
        assert!(pace.hold(at(7_199)).is_some());
    }
}
