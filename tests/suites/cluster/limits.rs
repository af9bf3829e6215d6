//! Pods that exceed their own limits on local storage.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::now_ns;
use eviction_tests::scenario::Evictor;
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};

use crate::api::{phase, record, text};
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a volume above its size limit costs its pod", || {
            node::with(volume)
        }),
        Case::new("a layer above its container's limit costs the pod", || {
            node::with(container)
        }),
        Case::new("logs above their container's limit cost the pod", || {
            node::with(logs)
        }),
        Case::new(
            "containers above their limits together cost the pod",
            || node::with(whole_pod),
        ),
    ]
}

const MIB: u64 = 1 << 20;
const A_SECOND: u64 = 40 * MIB;
const LIMIT: u64 = 60 * MIB;

/// Writes past any limit of the stories.
fn writing(name: &'static str, file: &'static str, bytes: u64) -> Wish {
    Wish {
        load: ["write", file, &bytes.to_string(), &A_SECOND.to_string()]
            .map(str::to_owned)
            .into(),
        volume: Some("/data"),
        ..Wish::holding(name, 0)
    }
}

fn volume(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_of_limits(state.path())?;
    // Just below the limit, and far above it without one.
    let near = Wish {
        size_limit: Some("60Mi"),
        ..writing("near", "/data/new", LIMIT - 4 * MIB)
    };
    let free = writing("free", "/data/new", 2 * LIMIT);
    for wish in [&near, &free] {
        node.apply(&wish.pod())?;
    }
    for wish in [&near, &free] {
        node.until_running("default", wish.name)?;
    }
    let hog = Wish {
        size_limit: Some("60Mi"),
        ..writing("hog", "/data/new", 4 * LIMIT)
    };
    node.apply(&hog.pod())?;
    let pod = node.until_running("default", "hog")?;
    let file = node
        .cluster
        .kubelet_root()
        .join("pods")
        .join(text(&pod, "/metadata/uid"))
        .join("volumes/kubernetes.io~empty-dir/data/new");
    let crossed = node.until("the volume is above its limit", 30, |_| {
        let bytes = file.metadata().map_or(0, |file| file.blocks() * 512);
        Ok((bytes > LIMIT).then(now_ns))
    })?;
    let decided = is_evicted(
        node,
        &mut evictor,
        "emptydirfs.limit",
        "Usage of EmptyDir volume \"data\" exceeds the limit \"60Mi\".",
    )?;
    for wish in [&near, &free] {
        node.lives_on("default", wish.name)?;
    }
    let late = decided.saturating_sub(crossed) / 1_000_000;
    Ok(Outcome::Noted(format!(
        "decided {late} ms after the limit, at 40 MiB/s"
    )))
}

fn container(node: &Node) -> Result<()> {
    // The other one's limit leaves the pod as a whole room enough.
    judged(
        node,
        &two_containers("/new", "60Mi", "900Mi"),
        "ephemeralcontainerfs.limit",
        "Container c exceeded its local ephemeral storage limit \"60Mi\".",
    )
}

/// The runtime writes them, in a cgroup that is no pod's.
fn logs(node: &Node) -> Result<()> {
    judged(
        node,
        &two_containers("/dev/stdout", "60Mi", "900Mi"),
        "ephemeralcontainerfs.limit",
        "Container c exceeded its local ephemeral storage limit \"60Mi\".",
    )
}

fn whole_pod(node: &Node) -> Result<()> {
    // A volume counts for the pod, and for no container.
    judged(
        node,
        &two_containers("/data/new", "30Mi", "30Mi"),
        "ephemeralpodfs.limit",
        "Pod ephemeral local storage usage exceeds the total limit of containers 60Mi.",
    )
}

/// The first writes to `file`, the second does nothing.
fn two_containers(file: &'static str, first: &'static str, second: &str) -> Value {
    let wish = Wish {
        storage: Some(first),
        ..writing("hog", file, 4 * LIMIT)
    };
    let mut pod = wish.pod();
    let mut idle = pod["spec"]["containers"][0].clone();
    idle["name"] = json!("idle");
    idle["args"] = json!(["hold", "0"]);
    idle["resources"]["limits"]["ephemeral-storage"] = json!(second);
    if let Some(containers) = pod["spec"]["containers"].as_array_mut() {
        containers.push(idle);
    }
    pod
}

fn judged(node: &Node, hog: &Value, signal: &str, message: &str) -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor_of_limits(state.path())?;
    let below = Wish {
        storage: Some("60Mi"),
        ..writing("below", "/new", LIMIT / 2)
    };
    node.apply(&below.pod())?;
    node.until_running("default", "below")?;
    node.apply(hog)?;
    is_evicted(node, &mut evictor, signal, message)?;
    node.lives_on("default", "below")
}

/// By us, in the kubelet's words, and nobody else; when that was decided, in nanoseconds.
fn is_evicted(node: &Node, evictor: &mut Evictor, signal: &str, message: &str) -> Result<u64> {
    let decision = evictor.wait_for("decision", Duration::from_secs(40))?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    ensure!(decision.text("signal") == signal, "{}", decision.0);
    ensure!(decision.text("message") == message, "{}", decision.0);
    evictor.wait_for("gone", Duration::from_secs(60))?;
    let pod = node.until("the hog is torn down", 60, |node| {
        let pod = node.pod("default", "hog")?;
        let statuses = pod.pointer("/status/containerStatuses");
        let statuses = statuses.and_then(Value::as_array).cloned();
        let have_stopped = statuses.is_some_and(|all| {
            all.iter()
                .all(|one| one.pointer("/state/terminated").is_some())
        });
        Ok((phase(&pod) == "Failed" && have_stopped).then_some(pod))
    })?;
    ensure!(record(&pod) == decision.text("id"), "{pod}");
    // The kubelet gives no reason of its own where the node is not short of anything.
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    ensure!(
        conditions.all(|condition| condition["type"] != "DisruptionTarget"),
        "{pod}"
    );
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 1, "{decisions} decisions");
    decision.number("t_ns").context("no time")
}
