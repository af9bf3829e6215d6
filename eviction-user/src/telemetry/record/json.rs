//! Records for programs. All records of one eviction carry the same id.

use super::reclaim;
use super::{Names, event_to, micros, millis, request, state_kind, wall_clock, why_not};
use crate::model::{Action, EvictionCause, Outcome, Ranking, Signal, Timestamp, Uid};
use crate::ports::{Entry, KillReport, LadderStep, record_id};
use crate::sys::clock;
use crate::telemetry::disk_rows::DiskRow;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn object(entry: &Entry, names: &mut Names) -> Value {
    match entry {
        Entry::Started { at, how } => json!({
            "record": "started",
            "t_ns": at.as_nanos(),
            "time": wall_clock(*at),
            "memory": how.source("memory"),
            "inodes": how.source("inodes"),
            "sources": how.sources.iter().copied().collect::<BTreeMap<_, _>>(),
            "notes": how.notes,
            "ladder": how.ladder.iter().map(ladder_step).collect::<Vec<_>>(),
            "metrics": how.metrics,
        }),
        Entry::Look { began, wake, left } => {
            let left = Signal::ALL
                .into_iter()
                .filter_map(|signal| Some((signal.name(), left[signal.index()]?)))
                .collect::<std::collections::BTreeMap<_, _>>();
            json!({
                "record": "look", "t_ns": began.as_nanos(), "time": wall_clock(*began),
                "source": wake.name(), "left": left,
            })
        }
        Entry::Event { event, received } => json!({
            "record": "event",
            "t_ns": event.time.as_nanos(),
            "time": wall_clock(event.time),
            "rung": event.rung,
            "signal": event.signal.name(),
            "cgroup": names.cgroups.name(event.cgroup),
            "cgroup_id": event.cgroup,
            "amount": event.amount,
            "pid": event.pid,
            "while_arming": event.while_arming,
            "notify_us": micros(clock::between(event.time, *received)),
        }),
        Entry::Decision {
            id,
            decided,
            wake,
            looked,
            dry_run,
            processes,
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
                "grace_s": eviction.time_to_leave().map(|_| eviction.grace.0.max(1)),
                "processes": processes,
            });
            record["signal"] = json!(eviction.cause.metric_label());
            if let EvictionCause::Pressure {
                threshold,
                observed,
                ranking,
                ..
            } = &eviction.cause
            {
                record["available"] = json!(observed.map(|o| o.available));
                record["capacity"] = json!(observed.map(|o| o.capacity));
                record["place"] = json!(names.places.get(&threshold.signal));
                record["ranking"] = ranking_json(ranking, *decided);
            }
            if !eviction.pod.namespace.is_empty() {
                record["namespace"] = json!(eviction.pod.namespace);
            }
            record
        }
        Entry::Kill {
            id,
            uid,
            report,
            wake,
        } => {
            let mut record = signalled("kill", *id, uid, report);
            record["event_to_kill_us"] = json!(event_to(wake, report.done).map(micros));
            record
        }
        Entry::Refused { id, uid, refusal } => json!({
            "record": "refused",
            "id": record_id(*id),
            "uid": uid.as_str(),
            "reason": refusal.reason,
            "again_ms": millis(refusal.again),
            "for_all": refusal.is_for_all,
        }),
        Entry::Bypassed { id, uid, reason } => json!({
            "record": "bypassed", "id": record_id(*id), "uid": uid.as_str(), "reason": reason,
        }),
        Entry::TakenOver { id, uid, at, grace } => json!({
            "record": "taken-over",
            "id": record_id(*id),
            "t_ns": at.as_nanos(),
            "time": wall_clock(*at),
            "uid": uid.as_str(),
            "grace_ms": grace.map(millis),
        }),
        Entry::Asked {
            id,
            uid,
            report,
            grace,
        } => {
            let mut record = signalled("asked", *id, uid, report);
            record["grace_ms"] = json!(millis(*grace));
            record
        }
        Entry::Reclaim { at, order, by } => json!({
            "record": "reclaim",
            "t_ns": at.as_nanos(),
            "time": wall_clock(*at),
            "signal": order.signal.name(),
            "by": by.name(),
            "calls": reclaim::calls(*order, *by),
            "dry_run": order.dry_run,
        }),
        Entry::Reclaimed {
            at,
            signal,
            dry_run,
            report,
            freed,
            rest,
        } => json!({
            "record": "reclaimed",
            "t_ns": at.as_nanos(),
            "time": wall_clock(*at),
            "signal": signal.name(),
            "took_ms": millis(report.took),
            "good": report.end.is_good(),
            "end": report.end.to_string(),
            "dry_run": dry_run,
            "removed": report.removed.map(reclaim::removed_json),
            "freed_bytes": freed.map(|freed| freed.bytes),
            "freed_inodes": freed.map(|freed| freed.inodes),
            "not_again_for_ms": rest.map(millis),
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
            "record": "no-candidate", "t_ns": at.as_nanos(), "time": wall_clock(*at), "ranking": ranking_json(ranking, *at),
        }),
        Entry::Engine { at, action } => {
            let mut record = state(action);
            record["record"] = json!(state_kind(action));
            record["t_ns"] = json!(at.as_nanos());
            record["time"] = json!(wall_clock(*at));
            record
        }
        Entry::Moved {
            at,
            moved,
            coverage,
        } => super::moved::object(*at, moved, coverage),
        Entry::LookFailed { reason } => json!({"record": "look-failed", "reason": reason}),
        Entry::EventsLost { count } => json!({"record": "events-lost", "count": count}),
        Entry::CountsForgotten { count } => json!({"record": "counts-forgotten", "count": count}),
        Entry::HookSilent { at, hook } => json!({
            "record": "hook-silent", "t_ns": at.as_nanos(), "time": wall_clock(*at), "signal": hook.signal.name(),
            "rung": hook.rung, "unseen": hook.unseen,
        }),
        Entry::EventLate { event, received } => json!({
            "record": "event-late", "t_ns": event.time.as_nanos(), "time": wall_clock(event.time), "rung": event.rung,
            "waited_us": micros(clock::between(event.time, *received)),
        }),
        Entry::OomKill { victim } => json!({
            "record": "oom-kill", "t_ns": victim.time.as_nanos(), "time": wall_clock(victim.time), "pid": victim.pid,
            "cgroup": names.cgroups.name(victim.cgroup), "cgroup_id": victim.cgroup,
        }),
        Entry::OomMismatch { mismatch } => json!({
            "record": "oom-mismatch", "cgroup": names.cgroups.name(mismatch.cgroup), "cgroup_id": mismatch.cgroup,
            "counted": mismatch.counted, "seen": mismatch.seen,
        }),
        Entry::RecordsDropped { count } => json!({"record": "records-dropped", "count": count}),
    }
}

/// One way to hear of events: whether it is used, at how many places, or why not.
fn ladder_step(step: &LadderStep) -> Value {
    json!({"family": step.family, "name": step.name, "places": step.places, "why_not": step.why_not})
}

/// A signal was sent to all of a victim's processes.
fn signalled(kind: &str, id: u64, uid: &Uid, report: &KillReport) -> Value {
    json!({
        "record": kind,
        "id": record_id(id),
        "t_ns": report.done.as_nanos(),
        "time": wall_clock(report.done),
        "uid": uid.as_str(),
        "method": report.method,
        "processes": report.processes,
    })
}

/// What else the engine says beside evictions.
fn state(action: &Action) -> Value {
    match action {
        Action::Conditions(conditions) => {
            json!({"conditions": conditions.iter().map(|c| c.name()).collect::<Vec<_>>()})
        }
        Action::NodeEvent(event) => json!({"reason": event.reason, "message": event.message}),
        Action::CleanupTimedOut(uids) | Action::EndGrace(uids) => {
            json!({"uids": uids.iter().map(|uid| uid.as_str()).collect::<Vec<_>>()})
        }
        Action::Held(hold) => json!({"reason": hold.name(), "message": hold.to_string()}),
        // What has a record of its own and never comes this way.
        other => json!({"detail": format!("{other:?}")}),
    }
}

/// The ranking with every key of every candidate, and why each loser lost.
fn ranking_json(ranking: &Ranking, now: Timestamp) -> Value {
    let candidates = ranking.candidates.iter().map(|candidate| {
        let disk = DiskRow::of(&candidate.disk, now);
        let mut row = json!({
            "name": candidate.pod.name,
            "exceeds_request": candidate.key.exceeds_request,
            "priority": candidate.key.priority,
            "usage": candidate.key.usage,
            "request": request(candidate.key.request_nanos),
            "victim": candidate.outcome == Outcome::Chosen,
            "why_not": why_not(candidate),
        });
        if !disk.is_empty() {
            row["disk"] = json!(disk);
        }
        if !candidate.pod.namespace.is_empty() {
            row["namespace"] = json!(candidate.pod.namespace);
        }
        row
    });
    json!({ "resource": ranking.resource.name(), "candidates": candidates.collect::<Vec<_>>() })
}
