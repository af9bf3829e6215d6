//! What was freed before anybody had to go, for people and as data.

use super::millis;
use crate::model::{ReclaimCall, Signal};
use crate::ports::{Freed, ReclaimBy, ReclaimOrder, ReclaimReport, Removed};
use bytesize::ByteSize;
use serde_json::{Value, json};
use std::time::Duration;

fn call(call: ReclaimCall) -> &'static str {
    match call {
        ReclaimCall::DeadContainers => "dead containers",
        ReclaimCall::UnusedImages => "unused images",
    }
}

/// Names of the calls; a command knows none.
pub(super) fn calls(order: ReclaimOrder, by: ReclaimBy) -> Option<Vec<&'static str>> {
    let calls = order.calls.iter().map(|one| call(*one));
    (by == ReclaimBy::Runtime).then(|| calls.collect())
}

pub(super) fn begun(order: ReclaimOrder, by: ReclaimBy) -> String {
    let signal = order.signal;
    match (calls(order, by), order.dry_run) {
        (None, false) => format!("running --reclaim for {signal}"),
        (None, true) => format!("would run --reclaim for {signal}"),
        (Some(calls), false) => format!("removing {} for {signal}", calls.join(", then ")),
        (Some(calls), true) => format!("would remove {} for {signal}", calls.join(", then ")),
    }
}

/// How it went and what it brought.
pub(super) fn ended(
    signal: Signal,
    dry_run: bool,
    report: &ReclaimReport,
    freed: Option<Freed>,
    rest: Option<Duration>,
) -> String {
    let freed = freed.map_or("unknown".to_owned(), |freed| {
        let sign = if freed.bytes < 0 { "-" } else { "" };
        let bytes = ByteSize::b(freed.bytes.unsigned_abs());
        format!("{sign}{bytes}, {} inodes", freed.inodes)
    });
    let rest = rest.map_or(String::new(), |rest| {
        let why = if dry_run { "" } else { "in vain, " };
        format!("; {why}not again for {} s", rest.as_secs())
    });
    let removed = report.removed.map_or(String::new(), |removed| {
        let would = if dry_run { "would have " } else { "" };
        format!(", {would}removed {}", things(removed))
    });
    format!(
        "{signal}: --reclaim ended after {} ms, {}{removed}; freed: {freed}{rest}",
        millis(report.took),
        report.end
    )
}

fn things(removed: Removed) -> String {
    let Removed {
        containers,
        sandboxes,
        images,
        image_bytes,
    } = removed;
    format!(
        "{containers} containers, {sandboxes} sandboxes, {images} images ({} by the runtime's word)",
        ByteSize::b(image_bytes)
    )
}

pub(super) fn removed_json(removed: Removed) -> Value {
    json!({
        "containers": removed.containers,
        "sandboxes": removed.sandboxes,
        "images": removed.images,
        "image_bytes": removed.image_bytes,
    })
}
