//! From one look to the distances of the armed lines, and to "is a threshold newly met?".

use crate::model::{Observations, Operator, Signal, Threshold};
use crate::policy::{distance, thresholds};
use crate::ports::{Distance, Look};

/// The thresholds, and which of them the last look found met.
#[derive(Debug)]
pub struct Lines {
    thresholds: Vec<Threshold>,
    /// One bit per threshold.
    met: u64,
}

impl Lines {
    pub fn new(thresholds: Vec<Threshold>) -> Self {
        Self { thresholds, met: 0 }
    }

    /// Takes in a look; is a threshold met that the look before did not find met?
    pub fn newly_met(&mut self, observations: &Observations) -> bool {
        let mut now = 0;
        for (bit, threshold) in self.thresholds.iter().enumerate().take(64) {
            let met = observations
                .get(threshold.signal)
                .is_some_and(|o| thresholds::is_met(threshold, o));
            now |= u64::from(met) << bit;
        }
        let new = now & !self.met;
        self.met = now;
        new != 0
    }

    /// Takes the engine's thresholds, which are others on another layout of file systems.
    pub fn replace(&mut self, thresholds: &[Threshold]) {
        let can_be_met = |t: &&Threshold| t.operator != Operator::Never;
        self.thresholds = thresholds.iter().filter(can_be_met).cloned().collect();
        // Those that are met are newly met: a decision more than needed, and none less.
        self.met = 0;
    }

    /// Has this signal any line?
    pub fn watch(&self, signal: Signal) -> bool {
        self.thresholds.iter().any(|t| t.signal == signal)
    }

    pub fn any_met(&self) -> bool {
        self.met != 0
    }

    /// The distance to the nearest threshold of this signal that is still to be crossed; `None` when there
    /// is no threshold, or no reading. Where a soft one is met already, the hard one behind it counts.
    pub fn distance(
        &self,
        signal: Signal,
        look: &Look,
        observations: &Observations,
    ) -> Option<Distance> {
        let observation = observations.get(signal)?;
        let distances = self
            .thresholds
            .iter()
            .filter(|t| t.signal == signal)
            .filter_map(|t| distance::to_threshold(t, observation));
        let ahead = distances.clone().filter(|left| *left > 0).min();
        let left = ahead.or_else(|| distances.max())?;
        // What counts as used at the line. Not more, even where not all that is charged counts: inactive file pages may go
        // and others come in their place while the counter stands still.
        let at_line = observation
            .capacity
            .saturating_sub(observation.available)
            .saturating_add(left);
        let level = match signal {
            Signal::AllocatableMemoryAvailable => Some(at_line),
            Signal::MemoryAvailable => Some(at_line.saturating_sub_unsigned(look.node_excess)),
            _ => None,
        };
        let level = level.map(|level| u64::try_from(level).unwrap_or(0));
        let left = match signal {
            Signal::MemoryAvailable => nearer(left, look.node_lead),
            _ => left,
        };
        Some(Distance { left, level })
    }
}

/// So far a look lets go at least, if it is not half of the distance: this much the line may be passed unseen where the node's
/// counters are ahead of its sums.
const LEAST: i64 = 1 << 20;

/// The distance less what the node's own counters show already. A little of it is left at least: should they be ahead for
/// another reason than lazy sums, there is a look for each MiB, and not one for each charge.
fn nearer(left: i64, lead: u64) -> i64 {
    let lead = i64::try_from(lead).unwrap_or(i64::MAX);
    if left <= 0 {
        return left;
    }
    left.saturating_sub(lead).max(LEAST.min(left - left / 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Limit, Observation, Quantity, Summary, Timestamp};

    const MIB: i64 = 1 << 20;

    fn observed(available: i64) -> Observations {
        let observation = Observation {
            available,
            capacity: 512 * MIB,
            time: None,
        };
        [(Signal::AllocatableMemoryAvailable, observation)]
            .into_iter()
            .collect()
    }

    fn lines(limits: &[&str]) -> Lines {
        let limit = |text: &&str| Limit::Quantity(text.parse::<Quantity>().unwrap());
        Lines::new(
            limits
                .iter()
                .map(|t| Threshold::hard(Signal::AllocatableMemoryAvailable, limit(t)))
                .collect(),
        )
    }

    fn look(node_excess: u64) -> Look {
        Look {
            taken: Timestamp::from_nanos(0),
            summary: Summary::default(),
            node_excess,
            node_lead: 0,
        }
    }

    #[test]
    fn a_threshold_is_newly_met_once_until_it_has_been_left() {
        let mut lines = lines(&["64Mi"]);
        let answers =
            [100, 63, 10, 100, 50].map(|available| lines.newly_met(&observed(available * MIB)));
        assert_eq!(answers, [false, true, false, false, true]);
    }

    #[test]
    fn a_node_whose_counters_are_ahead_of_its_sums_is_nearer_to_its_line() {
        for (left, lead, expected) in [
            (100, 0, 100),
            (100, 30, 70),
            (100, 50, 50),
            (100, 99, 50),
            (100, u64::MAX, 50),
            (1, 9, 1),
            (0, 9, 0),
            (-5, 9, -5),
            (10 * MIB, 3 << 20, 7 * MIB),
            (10 * MIB, 9 << 20, MIB),
            (10 * MIB, u64::MAX, MIB),
            (3 * MIB / 2, 1 << 20, 3 * MIB / 4),
        ] {
            assert_eq!(nearer(left, lead), expected, "{left} less {lead}");
        }
    }

    #[test]
    fn the_nearest_threshold_gives_distance_and_level() {
        let lines = lines(&["64Mi", "128Mi"]);
        let found = lines
            .distance(
                Signal::AllocatableMemoryAvailable,
                &look(0),
                &observed(200 * MIB),
            )
            .unwrap();
        assert_eq!(found.left, 72 * MIB + 1, "equal is not met");
        assert_eq!(
            found.level,
            Some(((512 - 128) << 20) + 1),
            "limit - threshold, whatever else is charged and does not count"
        );
        assert_eq!(
            lines.distance(Signal::MemoryAvailable, &look(0), &observed(200 * MIB)),
            None
        );
    }

    #[test]
    fn behind_a_threshold_that_is_met_the_next_one_is_armed() {
        let lines = lines(&["64Mi", "128Mi"]);
        let left = |available: i64| {
            let signal = Signal::AllocatableMemoryAvailable;
            let found = lines.distance(signal, &look(0), &observed(available * MIB));
            found.unwrap().left
        };
        assert_eq!(
            left(100),
            36 * MIB + 1,
            "the soft one is met, the hard one is not"
        );
        assert_eq!(left(64), 1);
        assert_eq!(left(63), -MIB + 1, "both are met: as far as the way back");
    }

    #[test]
    fn the_node_s_level_is_lower_by_what_its_counters_miss() {
        let limit = Limit::Quantity("128Mi".parse::<Quantity>().unwrap());
        let lines = Lines::new(vec![Threshold::hard(Signal::MemoryAvailable, limit)]);
        let observation = Observation {
            available: 200 * MIB,
            capacity: 512 * MIB,
            time: None,
        };
        let observed = [(Signal::MemoryAvailable, observation)]
            .into_iter()
            .collect();
        let level = |excess| {
            let found = lines.distance(Signal::MemoryAvailable, &look(excess), &observed);
            found.unwrap().level
        };
        assert_eq!(level(0), Some(((512 - 128) << 20) + 1));
        assert_eq!(level(1 << 20), Some(((512 - 128 - 1) << 20) + 1));
    }
}
