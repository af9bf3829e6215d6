//! Which conditions hold: those that the engine reports, and those that an earlier process has left on the node and whose transition
//! period is not over. A restart takes no condition back.

use super::Pressure;
use super::object::Ours;
use crate::model::{Condition, Span, Timestamp};
use crate::sys::clock;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::sleep;

/// Within this time after it was found the engine has looked, and has said if the condition has a cause still.
const FIRST_LOOK: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Standing {
    period: Span,
    reported: Vec<Condition>,
    /// Of an earlier process, until when.
    left: BTreeMap<Condition, Timestamp>,
    has_adopted: bool,
}

impl Standing {
    fn new(period: Span) -> Self {
        Self {
            period,
            reported: Vec::new(),
            left: BTreeMap::new(),
            has_adopted: false,
        }
    }

    fn report(&mut self, conditions: &[Condition]) {
        self.reported = conditions.to_vec();
        // From here on the engine knows its last cause, which is a later one.
        self.left.retain(|left, _| !conditions.contains(left));
    }

    /// Once: later on the node has what we have written. It was last seen to hold at its heartbeat, so its last cause is no younger.
    fn adopt(&mut self, found: &Ours, now: Timestamp, wall: SystemTime) {
        if std::mem::replace(&mut self.has_adopted, true) {
            return;
        }
        let period = Duration::from_nanos(self.period.as_nanos().max(0).unsigned_abs());
        for condition in Condition::ALL {
            if !found.holds(condition) || self.reported.contains(&condition) {
                continue;
            }
            // A taint alone has no time, and a clock may have been set back.
            let age = found.heartbeat(condition).map_or(Duration::ZERO, |at| {
                wall.duration_since(at).unwrap_or_default()
            });
            let rest = period.saturating_sub(age).max(FIRST_LOOK);
            tracing::info!(
                condition = condition.name(),
                "an earlier process has left it on the node: it holds for {} s more unless it has a cause again",
                rest.as_secs()
            );
            self.left.insert(condition, clock::later(now, rest));
        }
    }

    fn in_force(&mut self, now: Timestamp) -> Vec<Condition> {
        self.left.retain(|_, until| *until > now);
        let holds = |condition: &Condition| {
            self.reported.contains(condition) || self.left.contains_key(condition)
        };
        Condition::ALL.into_iter().filter(holds).collect()
    }

    /// Until the next one runs out.
    fn rest(&self, now: Timestamp) -> Option<Duration> {
        let next = self.left.values().min()?;
        Some(clock::between(now, *next))
    }
}

/// Tells them, for ever.
pub(in crate::kube) async fn in_force(
    pressure: &Pressure,
    mut reported: watch::Receiver<Vec<Condition>>,
    mut node: watch::Receiver<Option<Ours>>,
    told: &watch::Sender<Vec<Condition>>,
) {
    let mut standing = Standing::new(pressure.period);
    loop {
        standing.report(&reported.borrow_and_update());
        let now = clock::now();
        if let Some(found) = &*node.borrow_and_update() {
            standing.adopt(found, now, SystemTime::now());
        }
        let conditions = standing.in_force(now);
        told.send_if_modified(|before| {
            let is_news = *before != conditions;
            before.clone_from(&conditions);
            is_news
        });
        let rest = standing.rest(now);
        let expiry = async {
            match rest {
                Some(rest) => sleep(rest).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = reported.changed() => {}
            Ok(()) = node.changed(), if !standing.has_adopted => {}
            () = expiry => {}
            else => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::object::for_tests;
    use super::*;

    const BEAT: &str = "2026-01-01T00:00:00Z";
    const MEMORY: (&str, &str, &str) = ("eviction.dev/MemoryPressure", "True", BEAT);

    fn wall(seconds: u64) -> SystemTime {
        humantime::parse_rfc3339(BEAT).unwrap() + Duration::from_secs(seconds)
    }

    fn at(seconds: u64) -> Timestamp {
        clock::later(Timestamp::from_nanos(1), Duration::from_secs(seconds))
    }

    fn standing() -> Standing {
        Standing::new(Span::from_secs(300))
    }

    #[test]
    fn what_is_found_holds_for_the_rest_of_its_period_and_no_longer() {
        use Condition::{DiskPressure, MemoryPressure};
        let mut standing = standing();
        let found = for_tests(&[MEMORY], &["eviction.dev/disk-pressure"]);
        standing.adopt(&found, at(0), wall(100));
        assert_eq!(standing.in_force(at(199)), [MemoryPressure, DiskPressure]);
        assert_eq!(standing.rest(at(199)), Some(Duration::from_secs(1)));
        assert_eq!(standing.in_force(at(200)), [DiskPressure]);
        assert_eq!(standing.in_force(at(300)), []);
        assert_eq!(standing.rest(at(300)), None);
    }

    #[test]
    fn what_is_long_over_waits_only_for_the_engines_first_look() {
        let mut standing = standing();
        standing.adopt(&for_tests(&[MEMORY], &[]), at(0), wall(9000));
        assert_eq!(standing.in_force(at(9)), [Condition::MemoryPressure]);
        assert_eq!(standing.in_force(at(10)), []);
    }

    #[test]
    fn once_the_engine_has_reported_it_the_engine_alone_decides() {
        let mut standing = standing();
        standing.adopt(&for_tests(&[MEMORY], &[]), at(0), wall(0));
        standing.report(&[Condition::MemoryPressure]);
        assert_eq!(standing.in_force(at(5)), [Condition::MemoryPressure]);
        standing.report(&[]);
        assert_eq!(standing.in_force(at(6)), []);
        // What we have written ourselves since is no finding.
        standing.adopt(&for_tests(&[MEMORY], &[]), at(7), wall(7));
        assert_eq!(standing.in_force(at(7)), []);
    }
}
