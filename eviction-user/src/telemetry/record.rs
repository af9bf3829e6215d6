//! The records of `eviction run`: one line for each thing that happened, as text or JSON.

use crate::model::{
    Candidate, Eviction, EvictionCause, Outcome, Quantity, Ranking, Resource, Timestamp,
};
use crate::ports::{Entry, PressureEvent, Wake};
use crate::sys::cgroup::CgroupNames;
use crate::sys::clock;
use bytesize::ByteSize;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::mpsc::Receiver;
use std::time::{Duration, SystemTime};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Output {
    Text,
    /// One JSON object a line.
    Json,
}

/// Prints entries until the sender is gone.
pub fn print_all(entries: Receiver<Entry>, output: Output, mut names: CgroupNames) {
    let mut out = std::io::stdout();
    for entry in entries {
        let line = match output {
            Output::Text => text(&entry, &mut names),
            Output::Json => json(&entry, &mut names).to_string(),
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

fn json(entry: &Entry, names: &mut CgroupNames) -> Value {
    match entry {
        Entry::Event { event, received } => json!({
            "record": "event",
            "t_ns": event.time.as_nanos(),
            "time": wall_clock(event.time),
            "rung": event.rung,
            "watch": format!("{:?}", event.watch),
            "cgroup": names.name(event.cgroup),
            "cgroup_id": event.cgroup,
            "amount": event.amount,
            "pid": event.pid,
            "notify_us": micros(clock::between(event.time, *received)),
        }),
        Entry::Decision {
            id,
            decided,
            wake,
            looked,
            dry_run,
            eviction,
        } => {
            let mut record = json!({
                "record": "decision",
                "id": record_id(*id),
                "t_ns": decided.as_nanos(),
                "time": wall_clock(*decided),
                "source": wake.name(),
                "victim": eviction.pod.name,
                "uid": eviction.uid().as_str(),
                "message": eviction.message.trim_end(),
                "looked_ns": looked.as_nanos(),
                "sample_age_us": micros(clock::between(*looked, *decided)),
                "dry_run": dry_run,
            });
            if let EvictionCause::Pressure {
                threshold,
                observed,
                ranking,
                ..
            } = &eviction.cause
            {
                record["signal"] = json!(threshold.signal.name());
                record["available"] = json!(observed.map(|o| o.available));
                record["capacity"] = json!(observed.map(|o| o.capacity));
                record["ranking"] = ranking_json(ranking);
            }
            record
        }
        Entry::Kill {
            id,
            uid,
            report,
            wake,
        } => json!({
            "record": "kill",
            "id": record_id(*id),
            "t_ns": report.done.as_nanos(),
            "time": wall_clock(report.done),
            "uid": uid.as_str(),
            "method": report.method,
            "processes": report.processes,
            "event_to_kill_us": event_to(wake, report.done).map(micros),
        }),
        Entry::KillFailed { id, uid, reason } => json!({
            "record": "kill-failed", "id": record_id(*id), "uid": uid.as_str(), "reason": reason,
        }),
        Entry::Gone { id, uid, at, after } => json!({
            "record": "gone", "id": record_id(*id), "t_ns": at.as_nanos(), "time": wall_clock(*at), "uid": uid.as_str(),
            "after_us": micros(*after),
        }),
        Entry::StillThere { id, uid, after } => json!({
            "record": "still-there", "id": record_id(*id), "uid": uid.as_str(), "after_us": micros(*after),
        }),
        Entry::NoCandidate { at, ranking } => json!({
            "record": "no-candidate", "t_ns": at.as_nanos(), "time": wall_clock(*at), "ranking": ranking_json(ranking),
        }),
        Entry::Engine { at, action } => json!({
            "record": "engine", "t_ns": at.as_nanos(), "time": wall_clock(*at), "action": format!("{action:?}"),
        }),
        Entry::LookFailed { reason } => json!({"record": "look-failed", "reason": reason}),
        Entry::EventsLost { count } => json!({"record": "events-lost", "count": count}),
        Entry::RecordsDropped { count } => json!({"record": "records-dropped", "count": count}),
    }
}

/// The ranking with every key of every candidate, and why each loser lost.
fn ranking_json(ranking: &Ranking) -> Value {
    let candidates = ranking.candidates.iter().map(|candidate| {
        json!({
            "name": candidate.pod.name,
            "exceeds_request": candidate.key.exceeds_request,
            "priority": candidate.key.priority,
            "usage": candidate.key.usage,
            "request": request(candidate.key.request_nanos),
            "victim": candidate.outcome == Outcome::Chosen,
            "why_not": why_not(candidate),
        })
    });
    json!({ "resource": ranking.resource.name(), "candidates": candidates.collect::<Vec<_>>() })
}

fn text(entry: &Entry, names: &mut CgroupNames) -> String {
    let line =
        |at: Timestamp, what: &str, rest: String| format!("{} {what:<12} {rest}", wall_clock(at));
    match entry {
        Entry::Event { event, received } => {
            line(event.time, "event", event_text(event, *received, names))
        }
        Entry::Decision {
            id,
            decided,
            wake,
            looked,
            dry_run,
            eviction,
        } => {
            let intro = if *dry_run { "would evict" } else { "evict" };
            let age = micros(clock::between(*looked, *decided));
            let mut said = format!(
                "[{}] {} woken by {}, sample {age} us old: {}",
                record_id(*id),
                eviction.pod.name,
                wake.name(),
                eviction.message.trim_end()
            );
            for loser in losers(eviction) {
                said.push_str(&format!("\n{:40} not {loser}", ""));
            }
            line(*decided, intro, said)
        }
        Entry::Kill {
            id, report, wake, ..
        } => {
            let since = event_to(wake, report.done).map_or(String::new(), |d| {
                format!(", {} us after the event", micros(d))
            });
            let rest = format!(
                "[{}] {} processes by {}{since}",
                record_id(*id),
                report.processes,
                report.method
            );
            line(report.done, "killed", rest)
        }
        Entry::KillFailed { id, uid, reason } => line(
            clock::now(),
            "kill failed",
            format!("[{}] {uid}: {reason}", record_id(*id)),
        ),
        Entry::Gone { id, at, after, .. } => line(
            *at,
            "gone",
            format!(
                "[{}] empty {} ms after the decision",
                record_id(*id),
                after.as_millis()
            ),
        ),
        Entry::StillThere { id, after, .. } => line(
            clock::now(),
            "warning",
            format!(
                "[{}] still running {} s after the kill",
                record_id(*id),
                after.as_secs()
            ),
        ),
        Entry::NoCandidate { at, ranking } => {
            let reasons = ranking.candidates.iter().filter_map(|candidate| {
                Some(format!("{}: {}", candidate.pod.name, why_not(candidate)?))
            });
            let reasons: Vec<_> = reasons.collect();
            let reasons = if reasons.is_empty() {
                "there are no workloads".to_owned()
            } else {
                reasons.join("; ")
            };
            line(
                *at,
                "no victim",
                format!(
                    "short of {}, and nobody may be evicted: {reasons}",
                    ranking.resource
                ),
            )
        }
        Entry::Engine { at, action } => line(*at, "state", format!("{action:?}")),
        Entry::LookFailed { reason } => line(clock::now(), "look failed", reason.clone()),
        Entry::EventsLost { count } => line(
            clock::now(),
            "warning",
            format!("{count} kernel events lost; looked instead"),
        ),
        Entry::RecordsDropped { count } => line(
            clock::now(),
            "warning",
            format!("{count} records not printed: output too slow"),
        ),
    }
}

fn event_text(event: &PressureEvent, received: Timestamp, names: &mut CgroupNames) -> String {
    let amount = if event.watch.is_memory() {
        // Pages are 4 KiB on every architecture that we build for.
        format!("{} charged since armed", ByteSize::kib(event.amount * 4))
    } else {
        format!("{} inodes made since armed", event.amount)
    };
    let group = names
        .name(event.cgroup)
        .unwrap_or("an unknown cgroup")
        .to_owned();
    format!(
        "{} in {group}, {amount}, received after {} us",
        event.rung,
        micros(clock::between(event.time, received))
    )
}

/// The other candidates, each with what it uses and why it was spared.
fn losers(eviction: &Eviction) -> Vec<String> {
    let EvictionCause::Pressure {
        ranking, resource, ..
    } = &eviction.cause
    else {
        return Vec::new();
    };
    let amount = |n: i128| match resource {
        Resource::Memory | Resource::EphemeralStorage => {
            ByteSize::b(u64::try_from(n).unwrap_or(0)).to_string()
        }
        Resource::Inodes | Resource::Pids => n.to_string(),
    };
    let loser = |candidate: &Candidate| {
        let why = why_not(candidate)?;
        let used = amount(candidate.key.usage);
        let requested = amount(request(candidate.key.request_nanos));
        Some(format!(
            "{} (uses {used}, request {requested}): {why}",
            candidate.pod.name
        ))
    };
    ranking.candidates.iter().filter_map(loser).collect()
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

/// The id that all records of one eviction share, unique on this host until it reboots many times.
pub fn record_id(number: u64) -> String {
    format!("{}-{number}", std::process::id())
}

/// A byte count in the kubelet's notation.
pub fn quantity(bytes: i64) -> String {
    Quantity::binary(bytes).to_string()
}
