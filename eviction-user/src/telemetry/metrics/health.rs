//! Is the loop alive, and is it watching? Each answer is a text for people.

use super::Vitals;
use crate::model::Timestamp;
use crate::ports::Started;
use crate::sys::clock;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// So much later than promised a turn may come. The loop promises one for each heartbeat (a second) or, where it looks less
/// often, for its next cycle. Ten heartbeats are far more than a busy machine takes from a thread that runs before all
/// others, and less than anybody should go without.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub struct Health {
    pub(super) vitals: Arc<Vitals>,
    started: OnceLock<Started>,
    /// What else has to be so before it counts as ready.
    others: Vec<Check>,
}

/// `Err`: no, and why.
pub type Answer = Result<String, String>;

/// Whoever else can keep the program from working asks here.
pub type Check = Box<dyn Fn() -> Answer + Send + Sync>;

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").finish_non_exhaustive()
    }
}

impl Health {
    pub(super) fn new(vitals: Arc<Vitals>, others: Vec<Check>) -> Self {
        Self {
            vitals,
            started: OnceLock::new(),
            others,
        }
    }

    /// All lines are armed.
    pub(super) fn has_started(&self, how: &Started) {
        // Told once in a process.
        let _ = self.started.set(how.clone());
    }

    pub(super) fn started(&self) -> Option<&Started> {
        self.started.get()
    }

    /// Does the loop turn?
    pub fn live(&self, now: Timestamp) -> Answer {
        let last = self.vitals.last_turn();
        let overdue = self.vitals.overdue(now);
        match last.map(|last| clock::between(last, now).as_secs_f64()) {
            Some(ago) if overdue > PATIENCE => Err(format!(
                "the loop that watches and evicts last turned {ago:.1} s ago, its next turn is {:.1} s overdue\n",
                overdue.as_secs_f64()
            )),
            Some(ago) => Ok(format!("the loop last turned {ago:.1} s ago\n")),
            None if overdue > PATIENCE => Err(format!(
                "the loop that watches and evicts has not begun to turn, {:.1} s after it should have\n",
                overdue.as_secs_f64()
            )),
            None => Ok("the loop is being started\n".to_owned()),
        }
    }

    /// Is every line watched, as well as it can be here, and everything else as it must be?
    pub fn ready(&self, now: Timestamp) -> Answer {
        let Some(how) = self.started() else {
            return Err("no line is armed yet, the kernel's hooks are being attached\n".to_owned());
        };
        self.live(now)?;
        if self.vitals.is_blind() {
            return Err(
                "the node cannot be read, so no line is armed; the look-failed record tells why\n"
                    .to_owned(),
            );
        }
        let families = how.sources.iter();
        let watched = families.map(|(family, source)| Ok(watched_by(how, family, source)));
        watched
            .chain(self.others.iter().map(|check| check()))
            .collect()
    }
}

/// A line on where a family's events come from; without events, why.
fn watched_by(how: &Started, family: &str, source: &str) -> String {
    let steps = how.ladder.iter().filter(|step| step.family == family);
    let used = steps
        .clone()
        .filter(|step| step.is_used())
        .map(|step| step.name);
    let used: Vec<_> = used.collect();
    if !used.is_empty() {
        return format!("{family}: events from {}\n", used.join(", "));
    }
    let mut said = format!("{family}: no events, looking by the {source}: the declared fallback\n");
    for step in steps {
        let why = step.why_not.as_deref().unwrap_or("unknown");
        said.push_str(&format!("  not {}: {why}\n", step.name));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::Turned;
    use super::*;
    use crate::ports::LadderStep;

    fn health() -> Health {
        health_with(Vec::new())
    }

    fn health_with(others: Vec<Check>) -> Health {
        Health::new(Arc::new(Vitals::new(Timestamp::from_secs(0))), others)
    }

    fn started() -> Started {
        let step = |family, name, places, why_not: Option<&str>| LadderStep {
            family,
            resource: None,
            name,
            places,
            why_not: why_not.map(str::to_owned),
        };
        Started {
            sources: vec![("memory", "fentry/a"), ("pids", "timer")],
            notes: Vec::new(),
            ladder: vec![
                step("memory", "fentry/a", 1, None),
                step("memory", "kprobe/a", 0, Some("a better one is in use")),
                step("pids", "raw_tp/b", 0, Some("no tracepoint b")),
            ],
            metrics: None,
        }
    }

    fn turn(health: &Health, at: i64, wait: u64) {
        let turned = Turned {
            wait: Duration::from_secs(wait),
            ..Turned::default()
        };
        health.vitals.turned(Timestamp::from_secs(at), &turned);
    }

    #[test]
    fn it_is_alive_while_the_loop_turns_when_it_said() {
        let health = health();
        let live = |at| health.live(Timestamp::from_secs(at));
        assert_eq!(live(59), Ok("the loop is being started\n".to_owned()));
        let never =
            "the loop that watches and evicts has not begun to turn, 11.0 s after it should have\n";
        assert_eq!(live(71), Err(never.to_owned()));
        turn(&health, 80, 1);
        assert_eq!(live(91), Ok("the loop last turned 11.0 s ago\n".to_owned()));
        let late = "the loop that watches and evicts last turned 12.0 s ago, its next turn is 11.0 s overdue\n";
        assert_eq!(live(92), Err(late.to_owned()));
        turn(&health, 93, 1);
        assert!(live(93).is_ok(), "it turns again");
    }

    /// `--events none` looks at the monitoring interval only, which may be minutes.
    #[test]
    fn a_loop_that_turns_seldom_by_its_own_word_is_alive() {
        let health = health();
        turn(&health, 80, 300);
        assert!(health.live(Timestamp::from_secs(390)).is_ok());
        assert!(health.live(Timestamp::from_secs(391)).is_err());
    }

    #[test]
    fn it_is_ready_once_lines_are_armed_and_tells_how_each_family_is_watched() {
        let health = health();
        let ready = |at| health.ready(Timestamp::from_secs(at));
        turn(&health, 1, 1);
        let not_yet = "no line is armed yet, the kernel's hooks are being attached\n";
        assert_eq!(ready(1), Err(not_yet.to_owned()));
        health.has_started(&started());
        let how = "memory: events from fentry/a\n\
                   pids: no events, looking by the timer: the declared fallback\n  not raw_tp/b: no tracepoint b\n";
        assert_eq!(ready(1), Ok(how.to_owned()));
        assert!(ready(13).is_err(), "what does not turn is not watching");
        let blind = Turned {
            wait: Duration::from_secs(1),
            blind: true,
            ..Turned::default()
        };
        health.vitals.turned(Timestamp::from_secs(13), &blind);
        let why = ready(13).unwrap_err();
        assert!(why.starts_with("the node cannot be read"), "{why}");
        assert!(health.live(Timestamp::from_secs(13)).is_ok());
    }

    #[test]
    fn what_else_has_to_be_so_is_asked_and_told() {
        for answer in [Ok("pods: 3\n".to_owned()), Err("no list\n".to_owned())] {
            let given = answer.clone();
            let health = health_with(vec![Box::new(move || given.clone())]);
            turn(&health, 1, 1);
            health.has_started(&started());
            match (health.ready(Timestamp::from_secs(1)), answer) {
                (Ok(said), Ok(answer)) => assert!(said.ends_with(&answer), "{said}"),
                (said, answer) => assert_eq!(said, answer),
            }
            assert!(health.live(Timestamp::from_secs(1)).is_ok());
        }
    }
}
