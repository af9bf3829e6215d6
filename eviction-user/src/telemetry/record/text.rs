//! Records for people, who read them at 3 a.m.

use super::{Names, event_to, listed, micros, request, state_kind, wall_clock, why_not};
use crate::model::{Action, Candidate, Eviction, EvictionCause, Resource, Signal, Timestamp};
use crate::ports::{Entry, KillReport, OomMismatch, PressureEvent, record_id};
use crate::sys::cgroup::NODE;
use crate::sys::clock;
use crate::telemetry::disk_rows::DiskRow;
use bytesize::ByteSize;
use std::time::Duration;

pub(super) fn line(entry: &Entry, names: &mut Names) -> String {
    let at_time =
        |at: Timestamp, what: &str, rest: String| format!("{} {what:<12} {rest}", wall_clock(at));
    match entry {
        Entry::Started { at, how } => {
            let sources = how
                .sources
                .iter()
                .map(|(family, source)| format!("{family}: {source}"));
            let mut said = format!(
                "watching; events from {}",
                sources.collect::<Vec<_>>().join(", ")
            );
            if let Some(address) = how.metrics {
                said.push_str(&format!("; metrics at http://{address}/metrics"));
            }
            for note in &how.notes {
                said.push_str(&format!("\n{:40} note: {note}", ""));
            }
            at_time(*at, "started", said)
        }
        Entry::Look { began, wake, left } => {
            let left = Signal::ALL
                .into_iter()
                .filter_map(|signal| Some(format!("{} {}", signal.name(), left[signal.index()]?)));
            let said = format!(
                "by {}; left: {}",
                wake.name(),
                left.collect::<Vec<_>>().join(", ")
            );
            at_time(*began, "look", said)
        }
        Entry::Event { event, received } => {
            at_time(event.time, "event", event_text(event, *received, names))
        }
        Entry::Decision {
            id,
            decided,
            wake,
            looked,
            dry_run,
            processes,
            eviction,
        } => {
            let intro = if *dry_run { "would evict" } else { "evict" };
            let age = micros(clock::between(*looked, *decided));
            let mut said = format!(
                "[{}] {} woken by {}, sample {age} us old: {}",
                record_id(*id),
                eviction.pod.full_name(),
                wake.name(),
                eviction.message.trim_end()
            );
            if let Some(processes) = processes {
                said.push_str(&format!(" {processes} processes would be killed."));
            }
            for part in measured(eviction, *decided, names) {
                said.push_str(&format!("\n{:40} {part}", ""));
            }
            for loser in losers(eviction) {
                said.push_str(&format!("\n{:40} not {loser}", ""));
            }
            at_time(*decided, intro, said)
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
            at_time(report.done, "killed", rest)
        }
        Entry::TakenOver { id, uid, at, grace } => {
            let rest = grace.map_or("killed already".to_owned(), |grace| {
                format!("killed in {} s if it has not left", grace.as_secs())
            });
            let said = format!(
                "[{}] {uid}, evicted before the restart, is still there; {rest}",
                record_id(*id)
            );
            at_time(*at, "taken over", said)
        }
        Entry::Asked {
            id, report, grace, ..
        } => at_time(report.done, "asked", asked(*id, report, *grace)),
        Entry::Refused { id, uid, refusal } => at_time(
            clock::now(),
            "refused",
            format!(
                "[{}] {uid} may stay: {}; {} again within {} s",
                record_id(*id),
                refusal.reason,
                if refusal.is_for_all {
                    "nobody is asked for"
                } else {
                    "it is not asked for"
                },
                refusal.again.as_secs_f64()
            ),
        ),
        Entry::Bypassed { id, uid, reason } => at_time(
            clock::now(),
            "bypassed",
            format!(
                "[{}] {uid} is killed without an answer of the Eviction API: {reason}",
                record_id(*id)
            ),
        ),
        Entry::Reclaim { at, order, by } => {
            at_time(*at, "reclaim", super::reclaim::begun(*order, *by))
        }
        Entry::Reclaimed {
            at,
            signal,
            dry_run,
            report,
            freed,
            rest,
        } => {
            let said = super::reclaim::ended(*signal, *dry_run, report, *freed, *rest);
            at_time(*at, "reclaimed", said)
        }
        Entry::KillFailed { id, uid, reason } => at_time(
            clock::now(),
            "kill failed",
            format!("[{}] {uid}: {reason}", record_id(*id)),
        ),
        Entry::Gone { id, at, after, .. } => at_time(
            *at,
            "gone",
            format!(
                "[{}] empty {} ms after the decision",
                record_id(*id),
                after.as_millis()
            ),
        ),
        Entry::StillThere { id, after, .. } => at_time(
            clock::now(),
            "warning",
            format!(
                "[{}] still running {} s after the decision",
                record_id(*id),
                after.as_secs()
            ),
        ),
        Entry::NoCandidate { at, ranking } => {
            let reasons = ranking.candidates.iter().filter_map(|candidate| {
                Some(format!(
                    "{}: {}",
                    candidate.pod.full_name(),
                    why_not(candidate)?
                ))
            });
            let reasons: Vec<_> = reasons.collect();
            let reasons = if reasons.is_empty() {
                "there are no workloads".to_owned()
            } else {
                reasons.join("; ")
            };
            at_time(
                *at,
                "no victim",
                format!(
                    "short of {}, and nobody may be evicted: {reasons}",
                    ranking.resource
                ),
            )
        }
        Entry::Engine { at, action } => at_time(*at, state_kind(action), state(action)),
        Entry::Moved {
            at,
            moved,
            coverage,
        } => at_time(*at, "moved", super::moved::text(moved, coverage)),
        Entry::LookFailed { reason } => at_time(clock::now(), "look failed", reason.clone()),
        Entry::EventsLost { count } => at_time(
            clock::now(),
            "warning",
            format!("{count} kernel events lost; looked instead"),
        ),
        Entry::CountsForgotten { count } => at_time(
            clock::now(),
            "warning",
            format!(
                "too many cgroups use the disk: {count} of their counters were forgotten, rankings miss what they counted"
            ),
        ),
        Entry::HookSilent { at, hook } => at_time(
            *at,
            "warning",
            format!(
                "{} fell by {} and {} saw nothing of it: looking on a timer until it is heard again",
                hook.signal,
                quantity(hook.signal.resource(), hook.unseen.into()),
                hook.rung
            ),
        ),
        Entry::EventLate { event, received } => at_time(
            *received,
            "warning",
            format!(
                "an event by {} waited {} ms for this program to run",
                event.rung,
                clock::between(event.time, *received).as_millis()
            ),
        ),
        Entry::OomKill { victim } => at_time(
            victim.time,
            "OOM kill",
            format!(
                "the kernel killed process {} in {}",
                victim.pid,
                group(victim.cgroup, names)
            ),
        ),
        Entry::OomMismatch { mismatch } => {
            at_time(clock::now(), "warning", oom_mismatch(mismatch, names))
        }
        Entry::RecordsDropped { count } => at_time(
            clock::now(),
            "warning",
            format!("{count} records not printed: output too slow"),
        ),
    }
}

fn asked(id: u64, report: &KillReport, grace: Duration) -> String {
    let then = if grace.is_zero() {
        "killed when that is granted".to_owned()
    } else {
        format!("killed in {} s if they have not", grace.as_secs_f64())
    };
    format!(
        "[{}] {} processes to end ({}), {then}",
        record_id(id),
        report.processes,
        report.method
    )
}

/// More than were counted is no alarm: a victim that is exiting already is chosen, and not killed.
fn oom_mismatch(mismatch: &OomMismatch, names: &mut Names) -> String {
    let place = match mismatch.cgroup {
        NODE => "elsewhere on the node".to_owned(),
        id => format!("in {}", group(id, names)),
    };
    format!(
        "OOM kills {place} since the start: {} by the kernel's own count, {} seen as they happened",
        mismatch.counted, mismatch.seen
    )
}

fn group(id: u64, names: &mut Names) -> String {
    names
        .cgroups
        .name(id)
        .unwrap_or("an unknown cgroup")
        .to_owned()
}

/// What else the engine says beside evictions.
fn state(action: &Action) -> String {
    match action {
        Action::Conditions(conditions) if conditions.is_empty() => "none holds any more".to_owned(),
        Action::Conditions(conditions) => listed(conditions),
        Action::NodeEvent(event) => format!("{}: {}", event.reason, event.message),
        Action::CleanupTimedOut(uids) => {
            format!("{} not gone in time, going on without it", listed(uids))
        }
        Action::EndGrace(uids) => {
            format!("a hard threshold is met: {} must leave now", listed(uids))
        }
        Action::Held(hold) => hold.to_string(),
        // What has a record of its own and never comes this way.
        other => format!("{other:?}"),
    }
}

fn event_text(event: &PressureEvent, received: Timestamp, names: &mut Names) -> String {
    let amount = match event.signal.resource() {
        // Pages are 4 KiB on every architecture that we build for.
        Resource::Memory => format!("{} charged since armed", ByteSize::kib(event.amount * 4)),
        Resource::EphemeralStorage => format!("{} used since armed", ByteSize::b(event.amount)),
        Resource::Inodes => format!("{} inodes made since armed", event.amount),
        Resource::Pids => format!("{} tasks started since armed", event.amount),
    };
    if event.while_arming {
        return format!("{}, {amount}, found while arming", event.rung);
    }
    let group = group(event.cgroup, names);
    format!(
        "{} in {group}, {amount}, received after {} us",
        event.rung,
        micros(clock::between(event.time, received))
    )
}

/// Where the shortage is and how it was measured; for a disk also how the victim's use came about.
fn measured(eviction: &Eviction, now: Timestamp, names: &Names) -> Vec<String> {
    let EvictionCause::Pressure {
        threshold,
        observed,
        ranking,
        resource,
    } = &eviction.cause
    else {
        return Vec::new();
    };
    let place = names.places.get(&threshold.signal);
    let raw = observed.map(|o| format!("{} available of {}", o.available, o.capacity));
    let signal = threshold.signal;
    let mut said: Vec<_> = place
        .zip(raw)
        .map(|(place, raw)| format!("{signal} of {place}: {raw}"))
        .into_iter()
        .collect();
    let victim = ranking.victim().map(|victim| victim.disk.as_slice());
    let parts = DiskRow::of(victim.unwrap_or_default(), now);
    let texts = parts.iter().filter_map(|part| part.text(*resource));
    said.extend(texts.map(|text| format!("{} has {text}", eviction.pod.full_name())));
    said
}

/// An amount of something, for people.
fn quantity(resource: Resource, amount: i128) -> String {
    match resource {
        Resource::Memory | Resource::EphemeralStorage => {
            ByteSize::b(u64::try_from(amount).unwrap_or(0)).to_string()
        }
        Resource::Inodes | Resource::Pids => amount.to_string(),
    }
}

/// The other candidates, each with what it uses and why it was spared.
fn losers(eviction: &Eviction) -> Vec<String> {
    let EvictionCause::Pressure {
        ranking, resource, ..
    } = &eviction.cause
    else {
        return Vec::new();
    };
    let amount = |n: i128| quantity(*resource, n);
    let loser = |candidate: &Candidate| {
        let why = why_not(candidate)?;
        let used = amount(candidate.key.usage);
        let requested = amount(request(candidate.key.request_nanos));
        Some(format!(
            "{} (uses {used}, request {requested}): {why}",
            candidate.pod.full_name()
        ))
    };
    ranking.candidates.iter().filter_map(loser).collect()
}
