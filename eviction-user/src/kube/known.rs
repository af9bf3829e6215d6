//! What the API says of a pod, as far as it matters here. Pure.

use super::convert;
use super::names::RECORD;
use crate::model::{Pod, annotation};
use crate::ports::PodFate;
use k8s_openapi::api::core::v1 as api;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Under which the kubelet names the cgroup of a static pod (`pkg/kubelet/types/pod_update.go`).
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

#[derive(Debug, Clone)]
pub(super) struct KnownPod {
    pub(super) pod: Arc<Pod>,
    /// Names of its containers, by the runtime's id.
    pub(super) containers: BTreeMap<String, String>,
    /// `Failed` or `Succeeded`.
    pub(super) has_ended: bool,
    /// No container is said to run.
    pub(super) stands_still: bool,
    /// The record that it was last evicted under.
    pub(super) record: Option<String>,
}

impl KnownPod {
    pub(super) fn of(from: &api::Pod) -> Self {
        let pod = convert::pod(from);
        let status = from.status.clone().unwrap_or_default();
        let lists = [
            status.container_statuses,
            status.init_container_statuses,
            status.ephemeral_container_statuses,
        ];
        let containers: Vec<_> = lists.into_iter().flatten().flatten().collect();
        let runs = |container: &api::ContainerStatus| {
            container
                .state
                .as_ref()
                .is_some_and(|s| s.running.is_some())
        };
        Self {
            record: pod.annotations.get(RECORD).cloned(),
            has_ended: matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")),
            stands_still: !containers.iter().any(runs),
            containers: containers
                .into_iter()
                .filter_map(|container| {
                    // RUNTIME://ID
                    let id = container.container_id?;
                    let (_, id) = id.split_once("://")?;
                    Some((id.to_owned(), container.name))
                })
                .collect(),
            pod: Arc::new(pod),
        }
    }

    /// The uid in the name of its cgroup.
    pub(super) fn cgroup_uid(&self) -> &str {
        let annotations = &self.pod.annotations;
        let hash = annotations
            .get(annotation::CONFIG_MIRROR)
            .and_then(|_| annotations.get(CONFIG_HASH));
        hash.map_or(self.pod.uid.as_str(), String::as_str)
    }

    /// The kubelet has ended it, and says so.
    pub(super) fn is_torn_down(&self) -> bool {
        self.has_ended && self.stands_still
    }
}

/// The pods of this node, by the uid in the names of their cgroups.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    /// They have been listed once, and are followed since.
    pub(super) is_complete: bool,
    /// Why there is no node that they could be on: then nobody is to be evicted.
    pub(super) no_node: Option<String>,
    /// Why they are not followed just now.
    pub(super) trouble: Option<String>,
    pub(super) pods: BTreeMap<String, Arc<KnownPod>>,
}

impl Listed {
    pub(super) fn put(&mut self, pod: &api::Pod) {
        let known = KnownPod::of(pod);
        let key = known.cgroup_uid();
        // Whoever writes another pod's uid into the annotation of a static pod's hash does not become that pod.
        let is_taken =
            |there: &Arc<KnownPod>| there.pod.uid.as_str() == key && there.pod.uid != known.pod.uid;
        if !self.get(key).is_some_and(is_taken) {
            self.pods.insert(key.to_owned(), Arc::new(known));
        }
    }

    pub(super) fn remove(&mut self, pod: &api::Pod) {
        let known = KnownPod::of(pod);
        // A static pod that was made anew has the same hash and another uid.
        if self.get(known.cgroup_uid()).map(|p| &p.pod.uid) == Some(&known.pod.uid) {
            self.pods.remove(known.cgroup_uid());
        }
    }

    pub(super) fn get(&self, cgroup_uid: &str) -> Option<&Arc<KnownPod>> {
        self.pods.get(cgroup_uid)
    }

    /// One that may be evicted, as far as the API goes.
    pub(super) fn candidate(&self, cgroup_uid: &str) -> Option<&Arc<KnownPod>> {
        self.get(cgroup_uid).filter(|_| self.no_node.is_none())
    }
}

impl Listed {
    /// Whether what the runtime still has of a pod is of any use. Who does not follow the pods does not know of the newest.
    pub(super) fn fate(&self, cgroup_uid: &str) -> PodFate {
        let is_followed = self.is_complete && self.no_node.is_none() && self.trouble.is_none();
        match self.get(cgroup_uid) {
            Some(pod) if !pod.is_torn_down() => PodFate::Alive,
            _ if !is_followed => PodFate::Unknown,
            Some(_) | None => PodFate::Over,
        }
    }

    /// What is known, for people; `Err`: nothing yet.
    pub(super) fn state(&self) -> Result<String, String> {
        let trouble = self.trouble.as_deref();
        if !self.is_complete {
            let why = trouble.unwrap_or("it is being asked");
            return Err(format!(
                "the API server has not told of this node's pods, so none is evicted: {why}\n"
            ));
        }
        if let Some(why) = &self.no_node {
            return Err(format!("no pod is evicted: {why}\n"));
        }
        let lost = trouble.map_or(String::new(), |why| {
            format!(", by the last list: the API server does not answer: {why}")
        });
        Ok(format!("pods: {} on this node{lost}\n", self.pods.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn api(value: Value) -> api::Pod {
        serde_json::from_value(value).unwrap()
    }

    fn status(phase: &str, state: &Value) -> Value {
        json!({"phase": phase, "containerStatuses": [{
            "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "containerID": "containerd://5f2a", "state": state,
        }]})
    }

    #[test]
    fn a_pod_is_torn_down_when_it_has_ended_and_nothing_is_said_to_run() {
        let running = json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}});
        let terminated = json!({"terminated": {"exitCode": 137}});
        for (phase, state, expected) in [
            ("Running", &running, false),
            // Our own patch, which the kubelet has not answered yet.
            ("Failed", &running, false),
            ("Failed", &terminated, true),
            ("Running", &terminated, false),
            ("Succeeded", &terminated, true),
        ] {
            let pod = api(json!({"metadata": {"uid": "u"}, "status": status(phase, state)}));
            let known = KnownPod::of(&pod);
            assert_eq!(known.is_torn_down(), expected, "{phase} {state}");
            assert_eq!(known.containers["5f2a"], "c");
        }
    }

    #[test]
    fn a_static_pod_goes_by_its_hash_and_its_successor_is_not_removed_with_it() {
        let mirror = |uid: &str| {
            api(json!({"metadata": {"uid": uid, "annotations": {
                "kubernetes.io/config.hash": "ba1c", "kubernetes.io/config.mirror": "ba1c",
            }}}))
        };
        let mut listed = Listed::default();
        listed.put(&mirror("old"));
        listed.put(&mirror("new"));
        listed.remove(&mirror("old"));
        assert_eq!(listed.get("ba1c").unwrap().pod.uid.as_str(), "new");
        listed.remove(&mirror("new"));
        assert!(listed.get("ba1c").is_none());
        let copied = api(json!({"metadata": {"uid": "u", "annotations": {
            "kubernetes.io/config.hash": "ba1c",
        }}}));
        assert_eq!(
            KnownPod::of(&copied).cgroup_uid(),
            "u",
            "the API's own pods keep their uid"
        );
    }

    #[test]
    fn nobody_takes_anothers_place_by_an_annotation() {
        let mut listed = Listed::default();
        listed.put(&api(json!({"metadata": {"uid": "victim"}})));
        let thief = api(json!({"metadata": {"uid": "thief", "annotations": {
            "kubernetes.io/config.hash": "victim", "kubernetes.io/config.mirror": "x",
        }}}));
        listed.put(&thief);
        assert_eq!(listed.get("victim").unwrap().pod.uid.as_str(), "victim");
        listed.remove(&thief);
        assert!(listed.get("victim").is_some());
    }

    #[test]
    fn a_pod_is_over_when_it_is_torn_down_or_not_there_and_the_pods_are_followed() {
        let terminated = json!({"terminated": {"exitCode": 0}});
        let pod = |uid: &str, phase: &str| {
            api(json!({"metadata": {"uid": uid}, "status": status(phase, &terminated)}))
        };
        let mut listed = Listed::default();
        listed.put(&pod("done", "Succeeded"));
        // Its status does not say yet how it ended.
        listed.put(&pod("ending", "Running"));
        let fates = |listed: &Listed| ["done", "ending", "none"].map(|uid| listed.fate(uid));
        let [unknown, alive, over] = [PodFate::Unknown, PodFate::Alive, PodFate::Over];
        assert_eq!(fates(&listed), [unknown, alive, unknown]);
        listed.is_complete = true;
        assert_eq!(fates(&listed), [over, alive, over]);
        listed.trouble = Some("refused".to_owned());
        assert_eq!(fates(&listed), [unknown, alive, unknown]);
    }

    #[test]
    fn what_is_known_of_pods_is_told_and_what_keeps_us_from_knowing() {
        let mut listed = Listed::default();
        let state = listed.state().unwrap_err();
        assert!(
            state.contains("none is evicted: it is being asked"),
            "{state}"
        );
        listed.trouble = Some("refused".to_owned());
        assert!(listed.state().unwrap_err().ends_with(": refused\n"));
        listed.is_complete = true;
        let state = listed.state().unwrap();
        assert!(
            state.contains("by the last list") && state.contains("refused"),
            "{state}"
        );
        listed.trouble = None;
        assert_eq!(listed.state().unwrap(), "pods: 0 on this node\n");
    }
}
