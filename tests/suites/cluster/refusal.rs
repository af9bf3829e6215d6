//! New pods while a condition of ours holds: who is turned away, and who is let in.

use std::time::Duration;

use anyhow::{Result, ensure};
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::api::{phase, record, restarts, text};
use crate::conditions::{clean, end, until_told, until_told_of};
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "under memory pressure new pods are refused as by the kubelet, also after a restart",
            || node::with(under_memory_pressure),
        ),
        Case::new(
            "under disk pressure all new pods but critical ones are refused",
            || node::with(under_disk_pressure),
        ),
    ]
}

const FLAGS: [&str; 2] = ["--admission=on", "--node-conditions=on"];

fn under_memory_pressure(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_telling(&FLAGS, LINE, state.path())?;
    node.apply(&Wish::holding("before", 0).pod())?;
    node.until_running("default", "before")?;
    // The pressure is over in an instant, and its condition holds for the kubelet's five minutes.
    node.apply(&Wish::hog("hog", 500).pod())?;
    node.until_evicted("default", "hog")?;
    until_told(node, "True")?;

    let refused = newcomers(node, NODE)?;
    let manifest = node.cluster.folder.join("manifests/static.json");
    let mut pod = Wish::holding("static", 0).pod();
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    std::fs::write(manifest, pod.to_string())?;
    node.until_running("default", "static-node1")?;

    end(&mut evictor)?;
    // Bound while nobody looked: the kubelet has let it in, and it stays.
    node.apply(&Wish::holding("meanwhile", 0).pod())?;
    node.until_running("default", "meanwhile")?;
    let mut evictor = node.evictor_telling(&FLAGS, LINE, state.path())?;
    node.apply(&best_effort("after").pod())?;
    let after = until_refused(node, "after", "MemoryPressure")?;
    let refused = [&refused, &after];
    let mut begun = 0;
    for pod in refused {
        begun += usize::from(is_over(node, pod)?);
    }
    for name in ["before", "meanwhile", "static-node1"] {
        node.lives_on("default", name)?;
    }
    let left = std::fs::read_dir(state.path().join("records"))?.count();
    // The last one may be put back by the kubelet for ten seconds more.
    ensure!(left <= 1, "{left} records are said to be unfinished");
    evictor.drain();
    ensure!(evictor.of_kind("decision").count() == 0, "a decision");
    end(&mut evictor)?;
    let cleaned = clean(node, &["--all-nodes"])?;
    ensure!(cleaned.0 == 0, "{cleaned:?}");
    Ok(Outcome::Noted(told(&refused, begun)))
}

/// While memory pressure holds on the node: all kinds of pods come. The one that is refused.
pub(crate) fn newcomers(node: &Node, on: &str) -> Result<Value> {
    let mut tolerating = Wish::holding("tolerating", 0).pod_on(on);
    tolerating["spec"]["tolerations"] = json!([{
        "key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule",
    }]);
    let burstable = Wish {
        request: Some("16Mi"),
        ..Wish::holding("burstable", 0)
    };
    let critical = Wish {
        namespace: "kube-system",
        class: Some("system-node-critical"),
        ..Wish::holding("critical", 0)
    };
    node.create(&[
        best_effort("besteffort").pod_on(on),
        tolerating,
        burstable.pod_on(on),
        critical.pod_on(on),
    ])?;
    let refused = until_refused(node, "besteffort", "MemoryPressure")?;
    for (namespace, name) in [
        ("default", "tolerating"),
        ("default", "burstable"),
        ("kube-system", "critical"),
    ] {
        node.until_running(namespace, name)?;
        node.lives_on(namespace, name)?;
    }
    Ok(refused)
}

fn under_disk_pressure(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    // Met at once and for ever, with nobody there to go for it. (The images are to stay.)
    let flags = [&FLAGS[..], &["--reclaim=off"]].concat();
    let mut evictor = node.evictor_telling(&flags, "nodefs.available<1Ti", state.path())?;
    evictor.wait_for("conditions", Duration::from_secs(30))?;
    // Before that it does not follow the node's pods yet.
    until_told_of(node, "eviction.dev/DiskPressure", "True")?;
    let burstable = Wish {
        request: Some("16Mi"),
        ..best_effort("burstable")
    };
    let critical = Wish {
        namespace: "kube-system",
        class: Some("system-node-critical"),
        ..Wish::holding("critical", 0)
    };
    node.create(&[burstable.pod(), critical.pod()])?;
    let refused = until_refused(node, "burstable", "DiskPressure")?;
    node.until_running("kube-system", "critical")?;
    let begun = usize::from(is_over(node, &refused)?);
    node.lives_on("kube-system", "critical")?;
    evictor.drain();
    ensure!(evictor.of_kind("decision").count() == 0, "a decision");
    end(&mut evictor)?;
    let cleaned = clean(node, &["--all-nodes"])?;
    ensure!(cleaned.0 == 0, "{cleaned:?}");
    Ok(Outcome::Noted(told(&[&refused], begun)))
}

/// As almost every pod it has a volume, which the kubelet mounts before it makes the sandbox.
fn best_effort(name: &'static str) -> Wish {
    Wish {
        volume: Some("/data"),
        ..Wish::holding(name, 0)
    }
}

/// In the kubelet's words, which sets no condition either.
fn until_refused(node: &Node, name: &str, condition: &str) -> Result<Value> {
    let message = format!("The node had condition: [{condition}]. ");
    let pod = node.until(&format!("{name} is refused"), 30, |node| {
        let pod = node.pod("default", name)?;
        let is_refused = phase(&pod) == "Failed" && text(&pod, "/status/message") == message;
        Ok(is_refused.then_some(pod))
    })?;
    ensure!(text(&pod, "/status/reason") == "Evicted", "{pod}");
    ensure!(record(&pod).starts_with("refused-"), "{pod}");
    let conditions = pod.pointer("/status/conditions").map(Value::to_string);
    ensure!(
        !conditions.is_some_and(|c| c.contains("DisruptionTarget")),
        "{pod}"
    );
    let event = node.until("the event on the pod", 10, |node| {
        Ok(node.events("default", name, "Evicted")?.pop())
    })?;
    ensure!(
        text(&event, "/message").starts_with(message.trim_end()) && event["type"] == "Warning",
        "{event}"
    );
    Ok(pod)
}

/// Nothing of it is left, and it is not tried again. Whether the kubelet had begun with it: some 0.4 s after its creation it has, and a
/// machine that others use may keep us from being there before.
fn is_over(node: &Node, pod: &Value) -> Result<bool> {
    let name = text(pod, "/metadata/name");
    let uid = text(pod, "/metadata/uid");
    let root = node.cluster.pods_group()?;
    node.until(&format!("{name} has no cgroup"), 30, |_| {
        let left =
            ["besteffort", "burstable"].map(|class| root.join(class).join(format!("pod{uid}")));
        Ok((!left.iter().any(|group| group.exists())).then_some(()))
    })?;
    let now = node.pod("default", name)?;
    ensure!(
        phase(&now) == "Failed" && restarts(&now).unwrap_or(0) == 0,
        "{name} did not stay refused: {now}"
    );
    let begun = ["Pulled", "Created", "Started"].map(|reason| node.events("default", name, reason));
    let begun: Result<Vec<_>> = begun.into_iter().collect();
    Ok(!begun?.concat().is_empty())
}

fn told(refused: &[&Value], begun: usize) -> String {
    let first = refused.first().map(|pod| trimmed(pod));
    format!(
        "{} refused, {begun} of them begun by the kubelet; {}",
        refused.len(),
        first.unwrap_or_default()
    )
}

/// For the closing note.
fn trimmed(pod: &Value) -> String {
    json!({
        "metadata": {"annotations": pod["metadata"]["annotations"]},
        "status": {
            "phase": pod["status"]["phase"],
            "reason": pod["status"]["reason"],
            "message": pod["status"]["message"],
        },
    })
    .to_string()
}
