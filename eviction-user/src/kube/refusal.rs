//! Turns new pods away while a condition holds, as the kubelet does at its own (`Admit`, `pkg/kubelet/eviction/eviction_manager.go`):
//! straight from the watch's event, for the kubelet makes the sandbox some 0.4 s after it (measured).

use super::convert;
use super::owner;
use super::pressure::{Pressure, Refuses};
use super::record::Record;
use super::reports::Report;
use crate::host::Untouchable;
use crate::model::{Condition, Pod};
use crate::sys::cgroup::CgroupDir;
use k8s_openapi::api::core::v1 as api;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::{mpsc, watch};

pub(super) struct Gate {
    in_force: watch::Receiver<Vec<Condition>>,
    /// Weak: whoever waits for the last report to be sent does not wait for us.
    reports: mpsc::WeakUnboundedSender<Report>,
    refused: Arc<AtomicU64>,
    refuses: Refuses,
    root: CgroupDir,
    untouchable: Untouchable,
    /// Those that were seen before: each is looked at once.
    seen: BTreeSet<String>,
    has_listed: bool,
}

impl Gate {
    pub(super) fn new(
        pressure: &Pressure,
        in_force: watch::Receiver<Vec<Condition>>,
        reports: mpsc::WeakUnboundedSender<Report>,
        refused: Arc<AtomicU64>,
    ) -> Self {
        Self {
            in_force,
            reports,
            refused,
            refuses: pressure.refuses,
            root: pressure.root.clone(),
            untouchable: Untouchable::find(&pressure.hierarchy),
            seen: BTreeSet::new(),
            has_listed: false,
        }
    }

    /// A complete list.
    pub(super) fn see_all(&mut self, pods: &[api::Pod]) {
        for pod in pods {
            self.see(pod);
        }
        let there: BTreeSet<&str> = pods.iter().map(uid).collect();
        self.seen.retain(|uid| there.contains(uid.as_str()));
        self.has_listed = true;
    }

    pub(super) fn see(&mut self, pod: &api::Pod) {
        let is_new = self.seen.insert(uid(pod).to_owned());
        if !is_new || !is_newly_bound(pod, self.has_listed) {
            return;
        }
        let pod = convert::pod(pod);
        let conditions = self.in_force.borrow().clone();
        let Some(message) = (self.refuses)(&pod, &conditions) else {
            return;
        };
        if self.is_own(&pod) {
            return;
        }
        tracing::info!(
            pod = pod.name,
            namespace = pod.namespace,
            uid = %pod.uid,
            "the pod is refused: {}",
            message.trim_end()
        );
        self.refused.fetch_add(1, Relaxed);
        if let Some(reports) = self.reports.upgrade() {
            // The other end lives as long as the process.
            let _ = reports.send(Report::Refused(Record::of_refused(&pod, message)));
        }
    }

    pub(super) fn forget(&mut self, pod: &api::Pod) {
        self.seen.remove(uid(pod));
    }

    fn is_own(&self, pod: &Pod) -> bool {
        owner::group(&self.root, pod.uid.as_str())
            .is_some_and(|group| self.untouchable.is_in(group.path()))
    }
}

fn uid(pod: &api::Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or_default()
}

/// Nothing of it has run. Of those that were there before us (`has_listed`: this one was not) the kubelet has let in those that it
/// gave a start time.
fn is_newly_bound(pod: &api::Pod, has_listed: bool) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let Some(status) = &pod.status else {
        return true;
    };
    let lists = [&status.container_statuses, &status.init_container_statuses];
    let mut containers = lists.into_iter().flatten().flatten();
    let has_run = containers.any(|container| {
        let state = container.state.as_ref();
        container.restart_count > 0
            || state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    });
    let is_pending = status
        .phase
        .as_deref()
        .is_none_or(|phase| phase == "Pending");
    is_pending && !has_run && (has_listed || status.start_time.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(value: Value) -> api::Pod {
        serde_json::from_value(value).unwrap()
    }

    fn best_effort(uid: &str, status: &Value) -> api::Pod {
        pod(json!({"metadata": {"uid": uid, "name": uid}, "status": status}))
    }

    /// Whoever comes while any condition holds: who is let in is the policy's.
    fn refused(_: &crate::model::Pod, conditions: &[Condition]) -> Option<String> {
        (!conditions.is_empty()).then(|| "no".to_owned())
    }

    struct Stage {
        gate: Gate,
        conditions: watch::Sender<Vec<Condition>>,
        reports: mpsc::UnboundedReceiver<Report>,
        _root: tempfile::TempDir,
        _sender: mpsc::UnboundedSender<Report>,
    }

    impl Stage {
        fn new(conditions: &[Condition]) -> Self {
            let root = tempfile::tempdir().unwrap();
            let (conditions, in_force) = watch::channel(conditions.to_vec());
            let (sender, reports) = mpsc::unbounded_channel();
            let gate = Gate {
                in_force,
                reports: sender.downgrade(),
                refused: Arc::default(),
                refuses: refused,
                root: CgroupDir::open(root.path()).unwrap(),
                untouchable: Untouchable::default(),
                seen: BTreeSet::new(),
                has_listed: false,
            };
            Self {
                gate,
                conditions,
                reports,
                _root: root,
                _sender: sender,
            }
        }

        fn refused(&mut self) -> Vec<String> {
            let mut uids = Vec::new();
            while let Ok(Report::Refused(record)) = self.reports.try_recv() {
                uids.push(record.uid);
            }
            uids
        }
    }

    #[test]
    fn who_comes_while_a_condition_holds_is_refused_once_and_who_was_there_never() {
        let mut stage = Stage::new(&[]);
        let pending = json!({"phase": "Pending"});
        stage.gate.see_all(&[best_effort("a", &pending)]);
        stage.gate.see(&best_effort("b", &pending));
        stage
            .conditions
            .send_replace(vec![Condition::MemoryPressure]);
        for uid in ["a", "b", "c", "c"] {
            stage.gate.see(&best_effort(uid, &pending));
        }
        assert_eq!(stage.refused(), ["c"]);
        assert_eq!(stage.gate.refused.load(Relaxed), 1);
        stage.conditions.send_replace(vec![]);
        stage.gate.see(&best_effort("d", &pending));
        assert_eq!(stage.refused(), [""; 0]);
    }

    #[test]
    fn a_restart_refuses_whom_the_kubelet_has_not_seen_and_leaves_the_others_alone() {
        let mut stage = Stage::new(&[Condition::DiskPressure]);
        let started = json!({"phase": "Pending", "startTime": "2026-01-01T00:00:00Z"});
        stage.gate.see_all(&[
            best_effort("new", &json!({"phase": "Pending"})),
            best_effort("let-in", &started),
            best_effort("running", &json!({"phase": "Running"})),
            best_effort("ended", &json!({"phase": "Failed"})),
        ]);
        assert_eq!(stage.refused(), ["new"]);
        // From then on the kubelet may have been faster than the watch.
        stage.gate.see(&best_effort("fast", &started));
        assert_eq!(stage.refused(), ["fast"]);
        let leaving =
            pod(json!({"metadata": {"uid": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        stage.gate.see(&leaving);
        assert_eq!(stage.refused(), [""; 0]);
    }
}
