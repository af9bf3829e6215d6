//! Actions and notes in words.

use crate::model::{Action, ReclaimCall, Timestamp, Uid};
use crate::record::Note;
use crate::sys::clock;

/// For a column: what is done, without the reasons. Node events say nothing that the rest does not.
pub(super) fn brief(action: &Action) -> Option<String> {
    Some(match action {
        Action::Evict(eviction) => format!("evict {}", eviction.pod.name),
        Action::ReclaimNode { calls, .. } => format!("free {}", calls_text(calls)),
        Action::NodeEvent(_) => return None,
        Action::Conditions(conditions) if conditions.is_empty() => "no condition".to_owned(),
        Action::Conditions(conditions) => {
            let names: Vec<_> = conditions.iter().map(|c| c.name()).collect();
            names.join(", ")
        }
        Action::NoCandidate { .. } => "nobody may be evicted".to_owned(),
        Action::Held(hold) => format!("held: {hold}"),
        Action::CleanupTimedOut(victims) => {
            format!("{} not gone in time", victims.len())
        }
        Action::EndGrace(_) => "grace ended".to_owned(),
    })
}

/// With the reasons.
pub(super) fn full(action: &Action) -> Option<String> {
    Some(match action {
        Action::Evict(eviction) => format!(
            "evict {} ({} s grace): {}",
            eviction.pod.name,
            eviction.grace.0,
            eviction.message.trim_end()
        ),
        Action::ReclaimNode { signal, calls } => {
            format!("free {} for {signal}", calls_text(calls))
        }
        Action::NoCandidate { signal, ranking } => {
            let reasons: Vec<_> = ranking
                .candidates
                .iter()
                .map(|candidate| format!("{}: {}", candidate.pod.name, candidate.outcome))
                .collect();
            format!("nobody may be evicted for {signal}: {}", reasons.join("; "))
        }
        Action::Conditions(_) => format!("conditions: {}", brief(action)?),
        Action::CleanupTimedOut(victims) => {
            format!("not gone in time: {}", uids_text(victims))
        }
        Action::EndGrace(victims) => format!(
            "a hard threshold is met, grace ended: {}",
            uids_text(victims)
        ),
        Action::NodeEvent(_) | Action::Held(_) => brief(action)?,
    })
}

fn uids_text(uids: &[Uid]) -> String {
    let texts: Vec<_> = uids.iter().map(|uid| uid.as_str()).collect();
    texts.join(", ")
}

fn calls_text(calls: &[ReclaimCall]) -> String {
    let names: Vec<_> = calls
        .iter()
        .map(|call| match call {
            ReclaimCall::DeadContainers => "dead containers",
            ReclaimCall::UnusedImages => "unused images",
        })
        .collect();
    names.join(", ")
}

fn known(amount: Option<i64>) -> String {
    amount.map_or("unknown".to_owned(), |amount| amount.to_string())
}

/// What else happened. The time is that of the line before where a note has none.
pub(super) fn note(note: &Note) -> (Option<Timestamp>, String) {
    match note {
        Note::Started {
            at,
            memory,
            inodes,
            sources,
            ..
        } => {
            // Recordings from before there were more than two families name only these.
            let known = if sources.is_empty() {
                vec![format!("memory: {memory}"), format!("inodes: {inodes}")]
            } else {
                sources
                    .iter()
                    .map(|(family, source)| format!("{family}: {source}"))
                    .collect()
            };
            (
                Some(*at),
                format!("started; events from {}", known.join(", ")),
            )
        }
        Note::Event {
            at, rung, amount, ..
        } => (Some(*at), format!("event from {rung}, {amount} spent")),
        Note::Begun {
            at, uid, dry_run, ..
        } => {
            let what = if *dry_run { "would evict" } else { "evicts" };
            (Some(*at), format!("{what} {uid}"))
        }
        Note::Killed {
            at,
            uid,
            method,
            processes,
            ..
        } => (
            Some(*at),
            format!("killed {uid}: {processes} processes by {method}"),
        ),
        Note::TakenOver { at, uid, .. } => {
            (Some(*at), format!("{uid}, evicted before, is still there"))
        }
        Note::Asked {
            at,
            uid,
            processes,
            grace_ms,
            ..
        } => (
            Some(*at),
            format!("asked {uid} to leave within {grace_ms} ms: {processes} processes"),
        ),
        Note::Reclaim {
            at,
            signal,
            dry_run,
        } => {
            let what = if *dry_run { "would free" } else { "frees" };
            (Some(*at), format!("{what} disk space for {signal}"))
        }
        Note::Reclaimed {
            at,
            signal,
            took_ms,
            end,
            freed_bytes,
            freed_inodes,
        } => (
            Some(*at),
            format!(
                "reclaim for {signal} ended after {took_ms} ms: {end}; freed {} bytes, {} inodes",
                known(*freed_bytes),
                known(*freed_inodes)
            ),
        ),
        Note::Refused { uid, reason, .. } => {
            (None, format!("the end of {uid} was refused: {reason}"))
        }
        Note::Bypassed { uid, reason, .. } => (
            None,
            format!("killed {uid} without waiting for an answer: {reason}"),
        ),
        Note::KillFailed { uid, reason, .. } => (None, format!("could not kill {uid}: {reason}")),
        Note::Gone {
            at, uid, after_us, ..
        } => (
            Some(*at),
            format!("{uid} is gone, {after_us} us after the decision"),
        ),
        Note::StillThere { uid, after_us, .. } => (
            None,
            format!("{uid} is still there {after_us} us after the decision"),
        ),
        Note::Moved {
            at, path, from, to, ..
        } => (
            Some(*at),
            format!("{path} was on {from} and is on {to} now"),
        ),
        Note::LookFailed { reason } => (None, format!("a look failed: {reason}")),
        Note::EventsLost { count } => (None, format!("{count} kernel events lost")),
        Note::CountsForgotten { count } => (
            None,
            format!("{count} counters of disk use were forgotten: the table was full"),
        ),
        Note::HookSilent {
            at,
            signal,
            rung,
            unseen,
        } => (
            Some(*at),
            format!("{signal} fell by {unseen} and {rung} saw nothing of it"),
        ),
        Note::EventLate { at, received, rung } => (
            Some(*at),
            format!(
                "an event by {rung} waited {} ms to be read",
                clock::between(*at, *received).as_millis()
            ),
        ),
        Note::OomKilled { at, pid, cgroup } => (
            Some(*at),
            format!("the kernel's OOM killer chose process {pid} in cgroup {cgroup}"),
        ),
        Note::OomMismatch {
            cgroup,
            counted,
            seen,
        } => (
            None,
            format!("OOM kills in cgroup {cgroup}: {counted} counted by the kernel, {seen} seen"),
        ),
        Note::JournalDropped { count } => (None, format!("{count} lines of output dropped")),
        Note::NotesLost { count } => (None, format!("{count} notes not recorded")),
    }
}
