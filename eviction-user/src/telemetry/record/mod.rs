//! The records of `eviction run`: one line for each thing that happened, as text or JSON.

mod json;
mod moved;
mod reclaim;
mod text;

use crate::model::{Action, Candidate, Outcome, Signal, Timestamp};
use crate::ports::{Entry, Wake};
use crate::sys::cgroup::{CgroupNames, ChangeFeed};
use crate::sys::clock;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    /// One JSON object a line.
    Json,
}

/// How often changes of cgroups are taken in although nothing is to be printed.
const REFRESH: Duration = Duration::from_secs(1);

/// Where each watched signal is measured.
pub type Places = BTreeMap<Signal, String>;

/// What people call the things that records are about.
pub struct Names {
    pub cgroups: CgroupNames,
    pub places: Places,
}

/// Prints entries until the sender is gone. `feeds`: from where the kernel tells of cgroups, once that is known.
pub fn print_all(
    entries: &Receiver<Entry>,
    output: Output,
    mut names: Names,
    feeds: &Receiver<Box<dyn ChangeFeed>>,
) {
    let mut out = std::io::stdout();
    let mut lost = 0;
    loop {
        if names.cgroups.lost() > lost {
            lost = names.cgroups.lost();
            tracing::warn!(
                lost,
                "changes of cgroups came faster than they were read; a walk found what they led to"
            );
        }
        let entry = entries.recv_timeout(REFRESH);
        feeds.try_iter().for_each(|feed| names.cgroups.follow(feed));
        let entry = match entry {
            Ok(entry) => entry,
            Err(RecvTimeoutError::Timeout) => {
                names.cgroups.refresh();
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        moved::follow(&entry, &mut names.places);
        let line = match output {
            Output::Text => text::line(&entry, &mut names),
            Output::Json => json::object(&entry, &mut names).to_string(),
        };
        if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
            // Nobody reads any more (a closed pipe): evictions go on, and the log says what happened.
            tracing::warn!("standard output is closed: records are no longer printed");
            return;
        }
    }
}

/// A wall-clock time for a moment on the monotonic clock.
pub fn wall_clock(at: Timestamp) -> String {
    humantime::format_rfc3339_micros(SystemTime::now() - clock::elapsed_since(at)).to_string()
}

fn request(nanos: i128) -> i128 {
    nanos / 1_000_000_000
}

/// `None` for the victim.
fn why_not(candidate: &Candidate) -> Option<String> {
    (candidate.outcome != Outcome::Chosen).then(|| candidate.outcome.to_string())
}

fn event_to(wake: &Wake, done: Timestamp) -> Option<Duration> {
    match wake {
        Wake::Event(event) => Some(clock::between(event.time, done)),
        _ => None,
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The name of a record about the node's state.
fn state_kind(action: &Action) -> &'static str {
    match action {
        Action::Conditions(_) => "conditions",
        Action::NodeEvent(_) => "node-event",
        Action::Held(_) => "held-back",
        Action::CleanupTimedOut(_) => "overdue",
        Action::EndGrace(_) => "grace-ended",
        _ => "state",
    }
}

/// A list for people.
fn listed<T: ToString>(items: &[T]) -> String {
    items
        .iter()
        .map(T::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}
