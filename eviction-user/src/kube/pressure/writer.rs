//! Keeps the node's object in step with the conditions that hold: the latest state only, however long the API server was away.

use super::Pressure;
use super::object::{self, Ours};
use super::taints;
use crate::model::{Condition, Timestamp};
use crate::sys::causes::causes;
use crate::sys::clock;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::watcher::DefaultBackoff;
use kube::{Api, Client};
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// No answer within this is a failure, to be tried again.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the heartbeat is refreshed while a condition holds, at most: also twice within a transition period, as the time that is
/// left of that is known by it after a restart.
const HOLDING: Duration = Duration::from_secs(60);
/// The same while none holds, which is as often as a kubelet writes a status that has not changed (`nodeStatusReportFrequency`).
const QUIET: Duration = Duration::from_secs(300);
/// Another writer was faster: how often the list is read anew before it counts as a failure.
const TRIES: u32 = 5;

pub(in crate::kube) struct Writer {
    pressure: Pressure,
    client: Client,
    node: String,
    /// As it was last seen, or written by us.
    shown: Ours,
    last_beat: Option<Timestamp>,
}

impl Writer {
    pub(in crate::kube) fn new(pressure: Pressure, client: Client, node: String) -> Self {
        Self {
            pressure,
            client,
            node,
            shown: Ours::default(),
            last_beat: None,
        }
    }

    /// For ever. `told`: those that hold.
    pub(in crate::kube) async fn serve(
        mut self,
        mut told: watch::Receiver<Vec<Condition>>,
        mut node: watch::Receiver<Option<Ours>>,
    ) {
        let mut delays = DefaultBackoff::default();
        let mut has_failed = false;
        loop {
            let holding = told.borrow_and_update().clone();
            let seen = node.borrow_and_update().clone();
            let is_there = seen.is_some();
            if let Some(seen) = seen.filter(|seen| seen.version >= self.shown.version) {
                self.shown = seen;
            }
            let wait = if is_there {
                match self.write(&holding).await {
                    Ok(()) => {
                        if std::mem::take(&mut has_failed) {
                            tracing::info!(
                                node = self.node,
                                "the node's conditions are written again"
                            );
                        }
                        delays = DefaultBackoff::default();
                        self.until_next_beat(&holding)
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut has_failed, true) {
                            tracing::warn!(
                                node = self.node,
                                "the node's conditions could not be written, it is tried again: {error}"
                            );
                        }
                        delays.next().unwrap_or(PATIENCE)
                    }
                }
            } else {
                QUIET
            };
            tokio::select! {
                // Without the node's own events a failure waits for its time: each try of ours may be such an event.
                Ok(()) = node.changed(), if !has_failed => {}
                Ok(()) = told.changed() => {}
                () = sleep(wait) => {}
            }
        }
    }

    async fn write(&mut self, holding: &[Condition]) -> Result<(), String> {
        // Each is tried whatever becomes of the other.
        let conditions = if self.pressure.how.conditions {
            self.write_conditions(holding).await
        } else {
            Ok(())
        };
        let taints = if self.pressure.how.taint {
            self.write_taints(holding).await
        } else {
            Ok(())
        };
        conditions.and(taints)
    }

    async fn write_conditions(&mut self, holding: &[Condition]) -> Result<(), String> {
        let now = clock::now();
        let is_due = self.until_next_beat(holding).is_zero();
        let patch = conditions(
            &self.pressure.watched,
            holding,
            &self.shown,
            is_due,
            SystemTime::now(),
        );
        if patch.is_empty() {
            return Ok(());
        }
        let api: Api<Node> = Api::all(self.client.clone());
        let parameters = PatchParams::default();
        let patch = Patch::Strategic(object::status_patch(&patch));
        let sent = api.patch_status(&self.node, &parameters, &patch);
        self.shown = Ours::of(&answered(sent).await?);
        self.last_beat = Some(now);
        Ok(())
    }

    async fn write_taints(&mut self, holding: &[Condition]) -> Result<(), String> {
        let wanted: BTreeSet<String> = holding.iter().copied().map(object::taint_key).collect();
        if self.shown.taints == wanted {
            return Ok(());
        }
        set_taints(&self.client, &self.node, &wanted).await?;
        self.shown.taints = wanted;
        Ok(())
    }

    fn until_next_beat(&self, holding: &[Condition]) -> Duration {
        let period = self.pressure.period.as_nanos().max(0).unsigned_abs();
        let often = if holding.is_empty() {
            QUIET
        } else {
            HOLDING.min(Duration::from_nanos(period / 2).max(Duration::from_secs(1)))
        };
        let last = self.last_beat;
        last.map_or(Duration::ZERO, |last| {
            often.saturating_sub(clock::elapsed_since(last))
        })
    }
}

/// What is to be written; empty: nothing. `is_due`: the heartbeats are.
fn conditions(
    watched: &[Condition],
    holding: &[Condition],
    shown: &Ours,
    is_due: bool,
    now: SystemTime,
) -> Vec<Value> {
    let mut written = Vec::new();
    let mut kept = BTreeSet::new();
    for condition in Condition::ALL {
        let holds = holding.contains(&condition);
        // One that no line raises any more holds to its end.
        if !holds && !watched.contains(&condition) {
            continue;
        }
        let type_ = object::type_of(condition);
        let changed = shown.conditions.get(&type_).map(|shown| shown.holds) != Some(holds);
        if changed || is_due {
            written.push(object::condition(condition, holds, changed, now));
        }
        kept.insert(type_);
    }
    let idle = shown
        .conditions
        .keys()
        .filter(|type_| !kept.contains(*type_));
    written.extend(idle.map(|type_| object::removed(type_)));
    written
}

/// Leaves of our taints those with these keys.
pub(super) async fn set_taints(
    client: &Client,
    node: &str,
    wanted: &BTreeSet<String>,
) -> Result<(), String> {
    // As the API server wrote it: the list must be the same to the letter.
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
    let mut last = String::new();
    for _ in 0..TRIES {
        let read = answered(api.get(node)).await?;
        let read = serde_json::to_value(&read).map_err(|e| e.to_string())?;
        let Some(patch) = taints::patch(&read, wanted) else {
            return Ok(());
        };
        let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|e| e.to_string())?;
        let parameters = PatchParams::default();
        let patch = Patch::Json::<()>(patch);
        let sent = api.patch(node, &parameters, &patch);
        match timeout(PATIENCE, sent).await {
            Ok(Ok(_)) => return Ok(()),
            // Another list by now.
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 409 | 422) => {
                last = status.message;
            }
            Ok(Err(error)) => return Err(causes(&error)),
            Err(_) => return Err(no_answer()),
        }
    }
    Err(format!("the node's taints change all the time: {last}"))
}

pub(super) async fn answered<T>(sent: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
    match timeout(PATIENCE, sent).await {
        Ok(answer) => answer.map_err(|error| causes(&error)),
        Err(_) => Err(no_answer()),
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", PATIENCE.as_secs())
}

#[cfg(test)]
mod tests {
    use super::super::object::for_tests;
    use super::*;
    use Condition::{DiskPressure, MemoryPressure};

    const AT: &str = "2026-01-01T00:00:00Z";

    fn of(shown: &Ours, holding: &[Condition], is_due: bool) -> Vec<(String, String, bool)> {
        let watched = [MemoryPressure, DiskPressure];
        let written = conditions(&watched, holding, shown, is_due, SystemTime::UNIX_EPOCH);
        written
            .iter()
            .map(|one| {
                let status = one["status"].as_str().or(one["$patch"].as_str());
                (
                    one["type"].as_str().unwrap().to_owned(),
                    status.unwrap().to_owned(),
                    !one["lastTransitionTime"].is_null(),
                )
            })
            .collect()
    }

    fn told(type_: &str, status: &str, changed: bool) -> (String, String, bool) {
        (format!("eviction.dev/{type_}"), status.to_owned(), changed)
    }

    #[test]
    fn only_what_has_changed_or_is_due_is_written() {
        let bare = Ours::default();
        assert_eq!(
            of(&bare, &[MemoryPressure], false),
            [
                told("MemoryPressure", "True", true),
                told("DiskPressure", "False", true)
            ]
        );
        let shown = for_tests(
            &[
                ("eviction.dev/MemoryPressure", "True", AT),
                ("eviction.dev/DiskPressure", "False", AT),
            ],
            &[],
        );
        assert_eq!(of(&shown, &[MemoryPressure], false), []);
        assert_eq!(
            of(&shown, &[MemoryPressure], true),
            [
                told("MemoryPressure", "True", false),
                told("DiskPressure", "False", false)
            ]
        );
        assert_eq!(
            of(&shown, &[], false),
            [told("MemoryPressure", "False", true)]
        );
    }

    #[test]
    fn a_condition_of_which_no_line_is_any_more_goes_when_it_is_over() {
        let shown = for_tests(
            &[
                ("eviction.dev/MemoryPressure", "False", AT),
                ("eviction.dev/DiskPressure", "False", AT),
                ("eviction.dev/PIDPressure", "True", AT),
            ],
            &[],
        );
        assert_eq!(of(&shown, &[Condition::PidPressure], false), []);
        assert_eq!(
            of(&shown, &[], false),
            [told("PIDPressure", "delete", false)]
        );
    }
}
