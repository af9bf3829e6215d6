//! What the API says of pods, and what it must say of an evicted one.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::now_ns;
use serde_json::{Value, json};

use crate::node::Node;

/// The kubelet writes each pod's status every ten seconds (`syncPeriod` in `pkg/kubelet/status/status_manager.go`, v1.36).
const A_WRITE_AND_MORE: Duration = Duration::from_secs(12);
const BETWEEN: Duration = Duration::from_millis(100);

const RECORD: &str = "/metadata/annotations/eviction.dev~1record";

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or("")
}

pub(crate) fn phase(pod: &Value) -> &str {
    text(pod, "/status/phase")
}

pub(crate) fn record(pod: &Value) -> &str {
    text(pod, RECORD)
}

impl Node {
    pub(crate) fn apply(&self, manifest: &Value) -> Result<()> {
        self.cluster.apply(&self.parts, manifest)
    }

    /// Makes objects that are not there yet; their uids by name.
    pub(crate) fn create(&self, objects: &[Value]) -> Result<BTreeMap<String, String>> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let path = self.cluster.folder.join("create.json");
        std::fs::write(&path, list.to_string())?;
        let path = path.to_str().context("not UTF-8")?;
        let made = self.kubectl(&["create", "-f", path, "-o", "json"])?;
        // One object after the other, or a list of them.
        let mut uids = BTreeMap::new();
        for made in serde_json::Deserializer::from_str(&made).into_iter::<Value>() {
            let made = made?;
            let items = made["items"].as_array().cloned();
            for object in items.unwrap_or_else(|| vec![made]) {
                let name = text(&object, "/metadata/name").to_owned();
                uids.insert(name, text(&object, "/metadata/uid").to_owned());
            }
        }
        Ok(uids)
    }

    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Result<Value> {
        self.get(&["pod", name, "--namespace", namespace])
    }

    pub(crate) fn until_running(&self, namespace: &str, name: &str) -> Result<Value> {
        self.until(&format!("{name} runs"), 120, |node| {
            let pod = node.pod(namespace, name)?;
            Ok((phase(&pod) == "Running").then_some(pod))
        })
    }

    /// It runs, was never restarted, and is on nobody's record.
    pub(crate) fn lives_on(&self, namespace: &str, name: &str) -> Result<()> {
        let pod = self.pod(namespace, name)?;
        ensure!(
            phase(&pod) == "Running" && record(&pod).is_empty() && restarts(&pod) == Some(0),
            "{name} did not live on: {pod}"
        );
        Ok(())
    }

    /// Evicted for its memory, on record, and torn down by the kubelet.
    pub(crate) fn until_evicted(&self, namespace: &str, name: &str) -> Result<Value> {
        let pod = self.until_torn_down(namespace, name)?;
        check_evicted(&pod)?;
        Ok(pod)
    }

    pub(crate) fn until_torn_down(&self, namespace: &str, name: &str) -> Result<Value> {
        self.until(&format!("{name} is torn down"), 120, |node| {
            let pod = node.pod(namespace, name)?;
            let stopped = pod.pointer("/status/containerStatuses/0/state/terminated");
            Ok((phase(&pod) == "Failed" && stopped.is_some()).then_some(pod))
        })
    }

    /// Watches for longer than the kubelet's time between two writes of a status: no pod of `namespace` that is on record leaves its
    /// phase, not for a moment. How many there are.
    pub(crate) fn stay_evicted(&self, namespace: &str) -> Result<usize> {
        let until = now_ns() + A_WRITE_AND_MORE.as_nanos() as u64;
        loop {
            let is_last = now_ns() > until;
            let pods = self.get(&["pods", "--namespace", namespace])?;
            let pods = pods["items"].as_array().into_iter().flatten();
            let victims: Vec<&Value> = pods.filter(|pod| !record(pod).is_empty()).collect();
            for pod in &victims {
                ensure!(phase(pod) == "Failed", "revived: {pod}");
            }
            if is_last {
                return Ok(victims.len());
            }
            std::thread::sleep(BETWEEN);
        }
    }

    /// The events about an object of this name, by reason.
    pub(crate) fn events(&self, namespace: &str, name: &str, reason: &str) -> Result<Vec<Value>> {
        let fields = format!("involvedObject.name={name},reason={reason}");
        let found = self.get(&[
            "events",
            "--namespace",
            namespace,
            "--field-selector",
            &fields,
        ])?;
        Ok(found["items"].as_array().cloned().unwrap_or_default())
    }
}

/// What every eviction leaves on a pod that was not started again meanwhile; its message. Its reason and message in the status itself the kubelet may drop, rarely
/// (`kubernetes-facts.md`: 1 of 85).
pub(crate) fn check_on_record(pod: &Value) -> Result<&str> {
    let name = text(pod, "/metadata/name");
    let message = check_record(pod)?;
    let restarts = restarts(pod);
    ensure!(restarts == Some(0), "{name} was restarted: {restarts:?}");
    Ok(message)
}

/// Times that the kubelet started its container again.
pub(crate) fn restarts(pod: &Value) -> Option<u64> {
    let restarts = pod.pointer("/status/containerStatuses/0/restartCount");
    restarts.and_then(Value::as_u64)
}

/// The same, however often it was started again before the API server was told.
pub(crate) fn check_record(pod: &Value) -> Result<&str> {
    let name = text(pod, "/metadata/name");
    ensure!(!record(pod).is_empty(), "{name} has no record's id: {pod}");
    ensure!(phase(pod) == "Failed", "{name} is {}", phase(pod));
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let disrupted = conditions.find(|c| c["type"] == "DisruptionTarget");
    let disrupted = disrupted.with_context(|| format!("{name} has no DisruptionTarget: {pod}"))?;
    ensure!(disrupted["status"] == "True", "{disrupted}");
    ensure!(disrupted["reason"] == "TerminationByKubelet", "{disrupted}");
    Ok(text(disrupted, "/message"))
}

/// The same of a hog for its memory.
pub(crate) fn check_evicted(pod: &Value) -> Result<()> {
    let message = check_on_record(pod)?;
    ensure!(
        message.starts_with("The node was low on resource: memory. Threshold quantity: 400Mi"),
        "{message}"
    );
    ensure!(
        message.contains("Container c was using ")
            && message.contains(", request is 16Mi, has larger consumption of memory. "),
        "{message}"
    );
    Ok(())
}
