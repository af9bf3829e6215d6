//! What a node's object has of ours, and what is to be written there. Pure.

use super::super::names::{GROUP, is_ours};
use crate::model::Condition;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// A condition as the node's object has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kube) struct Shown {
    pub(super) holds: bool,
    pub(super) heartbeat: Option<SystemTime>,
}

/// All that is ours of a node's object, by its names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::kube) struct Ours {
    /// Which of two is the later one.
    pub(super) version: u64,
    pub(super) conditions: BTreeMap<String, Shown>,
    pub(super) taints: BTreeSet<String>,
}

impl Ours {
    pub(in crate::kube) fn of(node: &Node) -> Self {
        let version = node.metadata.resource_version.as_deref();
        let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
        let conditions = conditions.into_iter().flatten();
        let taints = node.spec.as_ref().and_then(|s| s.taints.as_ref());
        let taints = taints.into_iter().flatten();
        Self {
            version: version.and_then(|v| v.parse().ok()).unwrap_or_default(),
            conditions: conditions
                .filter(|condition| is_ours(&condition.type_))
                .map(|condition| {
                    let shown = Shown {
                        holds: condition.status == "True",
                        heartbeat: condition.last_heartbeat_time.as_ref().map(|t| t.0.into()),
                    };
                    (condition.type_.clone(), shown)
                })
                .collect(),
            taints: taints
                .filter(|taint| is_ours(&taint.key))
                .map(|taint| taint.key.clone())
                .collect(),
        }
    }

    /// Is it said to hold, in either way?
    pub(super) fn holds(&self, condition: Condition) -> bool {
        let shown = self.conditions.get(&type_of(condition));
        shown.is_some_and(|shown| shown.holds) || self.taints.contains(&taint_key(condition))
    }

    pub(super) fn heartbeat(&self, condition: Condition) -> Option<SystemTime> {
        self.conditions.get(&type_of(condition))?.heartbeat
    }
}

/// The type of our own condition.
pub(super) fn type_of(condition: Condition) -> String {
    format!("{GROUP}/{}", condition.name())
}

/// As Kubernetes' own are called (`node.kubernetes.io/memory-pressure`).
pub(super) fn taint_key(condition: Condition) -> String {
    format!("{GROUP}/{}", words(condition).0)
}

/// In the taint's key, and in a sentence.
const fn words(condition: Condition) -> (&'static str, &'static str) {
    match condition {
        Condition::MemoryPressure => ("memory-pressure", "memory"),
        Condition::DiskPressure => ("disk-pressure", "disk space or inodes"),
        Condition::PidPressure => ("pid-pressure", "process ids"),
    }
}

/// For a strategic merge into the node's status. `changed`: since `now`; else the time of its last change stays.
pub(super) fn condition(
    condition: Condition,
    holds: bool,
    changed: bool,
    now: SystemTime,
) -> Value {
    let (_, what) = words(condition);
    let now = humantime::format_rfc3339_seconds(now).to_string();
    let (status, reason, message) = if holds {
        let message = format!(
            "eviction has seen a threshold for {what} met, now or within the transition period"
        );
        ("True", "EvictionThresholdMet", message)
    } else {
        let message = format!("eviction sees no threshold for {what} met");
        ("False", "NoEvictionThresholdMet", message)
    };
    let mut written = json!({
        "type": type_of(condition),
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
    });
    if changed {
        written["lastTransitionTime"] = json!(now);
    }
    written
}

/// Takes a condition out.
pub(super) fn removed(type_: &str) -> Value {
    json!({"$patch": "delete", "type": type_})
}

pub(super) fn status_patch(conditions: &[Value]) -> Value {
    json!({"status": {"conditions": conditions}})
}

#[cfg(test)]
pub(super) fn for_tests(conditions: &[(&str, &str, &str)], taints: &[&str]) -> Ours {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(type_, status, at)| {
            json!({"type": type_, "status": status, "lastHeartbeatTime": at, "lastTransitionTime": at})
        })
        .collect();
    let taints: Vec<_> = taints
        .iter()
        .map(|key| json!({"key": key, "effect": "NoSchedule"}))
        .collect();
    let node = json!({
        "metadata": {"name": "n", "resourceVersion": "7"},
        "spec": {"taints": taints},
        "status": {"conditions": conditions},
    });
    Ours::of(&serde_json::from_value(node).unwrap())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const AT: &str = "2026-01-01T00:00:00Z";

    #[test]
    fn only_what_is_ours_is_seen_of_a_node() {
        let ours = for_tests(
            &[
                ("MemoryPressure", "True", AT),
                ("eviction.dev/DiskPressure", "True", AT),
                ("eviction.dev/PIDPressure", "False", AT),
                ("eviction.devious/x", "True", AT),
            ],
            &[
                "node.kubernetes.io/memory-pressure",
                "eviction.dev/pid-pressure",
            ],
        );
        assert_eq!(ours.version, 7);
        let held = Condition::ALL.map(|condition| ours.holds(condition));
        assert_eq!(held, [false, true, true], "a taint tells it, too");
        assert_eq!(
            ours.heartbeat(Condition::DiskPressure),
            humantime::parse_rfc3339(AT).ok()
        );
        assert_eq!(ours.conditions.len(), 2);
        assert_eq!(ours.taints.len(), 1);
    }

    #[test]
    fn a_conditions_last_transition_is_written_only_with_a_change() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        let told = |holds, changed| condition(Condition::PidPressure, holds, changed, at);
        assert_eq!(
            told(true, true),
            json!({
                "type": "eviction.dev/PIDPressure",
                "status": "True",
                "reason": "EvictionThresholdMet",
                "message": "eviction has seen a threshold for process ids met, now or within the transition period",
                "lastHeartbeatTime": "1970-01-01T00:00:01Z",
                "lastTransitionTime": "1970-01-01T00:00:01Z",
            })
        );
        let again = told(false, false);
        assert_eq!(
            (&again["status"], &again["lastTransitionTime"]),
            (&json!("False"), &Value::Null)
        );
        assert_eq!(
            status_patch(&[removed("eviction.dev/PIDPressure")]),
            json!({"status": {"conditions": [{"$patch": "delete", "type": "eviction.dev/PIDPressure"}]}})
        );
    }
}
