//! The API server away, and the program killed, in the middle of an eviction.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::http::get;
use eviction_tests::load::now_ns;
use eviction_tests::scenario::{Record, wait_until};
use eviction_tests::suite::Case;

use crate::api::record;
use crate::halted::Halted;
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "not ready until the API server has told of the pods",
            || node::with(not_ready),
        ),
        Case::new(
            "API server away: killed all the same, on record when it is back",
            || node::with(|node| without_api(node, false)),
        ),
        Case::new(
            "killed itself before it is on record: the next process sees to it",
            || node::with(|node| without_api(node, true)),
        ),
    ]
}

/// Bytes; half of the way to the line.
const HALF: u64 = 512 << 20;

fn not_ready(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    let halted = Halted::program(node, "kube-apiserver")?;
    let mut evictor = node.evictor(state.path())?;
    let started = evictor.wait_for("started", Duration::from_secs(1))?;
    let address = started
        .text("metrics")
        .parse()
        .context("no address of the probes")?;
    let unready = get(address, "/readyz")?;
    ensure!(
        unready.status == 503 && unready.body.contains("has not told of this node's pods"),
        "{unready:?}"
    );
    drop(halted);
    node.until("it is ready", 60, |_| {
        let ready = get(address, "/readyz")?;
        Ok((ready.status == 200 && ready.body.contains("pods: 0 on this node")).then_some(()))
    })
}

fn without_api(node: &Node, is_killed: bool) -> Result<()> {
    let state = tempfile::tempdir()?;
    let mut evictor = node.evictor(state.path())?;
    // Slow enough that the server is away before it crosses the line.
    node.apply(&Wish::hog("hog", 60).pod())?;
    let pod = node.until_running("default", "hog")?;
    let uid = pod["metadata"]["uid"]
        .as_str()
        .context("no uid")?
        .to_owned();
    let halted = Halted::program(node, "kube-apiserver")?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    evictor.wait_for("kill", Duration::from_secs(5))?;
    let begun = state.path().join(format!("records/{uid}.json"));
    node.until("the record is kept", 5, |_| {
        Ok(begun.exists().then_some(()))
    })?;
    if is_killed {
        let victims = state.path().join("victims.json");
        node.until("the victim is kept", 5, |_| {
            Ok(std::fs::read_to_string(&victims)?
                .contains(&uid)
                .then_some(()))
        })?;
        drop(evictor);
        evictor = node.evictor(state.path())?;
        // Nobody else goes meanwhile: the victim is known again.
        let taken: Record = evictor.wait_for("taken-over", Duration::from_secs(10))?;
        ensure!(taken.text("uid") == uid, "{}", taken.0);
    } else {
        // The kubelet knows nothing yet and starts the container again, about a second after its end: never for long.
        stays_small(&node.cluster.pods_group()?, Duration::from_secs(5))?;
    }
    drop(halted);
    let pod = node.until_evicted("default", "hog").or_else(|error| {
        // Restarts before the server was back are the kubelet's, and counted by it.
        let pod = node.pod("default", "hog")?;
        let told = format!("{error:#}");
        ensure!(told.contains("was restarted"), "{told}");
        Ok::<_, anyhow::Error>(pod)
    })?;
    ensure!(
        record(&pod).starts_with(decision.text("id")),
        "{} does not begin with {}",
        record(&pod),
        decision.text("id")
    );
    evictor.wait_for("gone", Duration::from_secs(60))?;
    // A kubelet that had started it again, and not told anybody while the server was away, may put its own status back once.
    let watched = node.stay_evicted("default").or_else(|_| {
        node.until_torn_down("default", "hog")?;
        node.stay_evicted("default")
    })?;
    ensure!(watched == 1, "{watched} victims");
    ensure!(!begun.exists(), "the record is said to be unfinished");
    evictor.drain();
    let others = evictor.of_kind("decision").filter(|d| d.text("uid") != uid);
    ensure!(others.count() == 0, "another one went, too");
    Ok(())
}

/// What was taken is given back, and never taken again.
fn stays_small(pods: &Path, so_long: Duration) -> Result<()> {
    wait_until(Duration::from_secs(5), || {
        (usage(pods).ok()? < HALF).then_some(())
    })
    .context("the memory is not given back")?;
    let until = now_ns() + so_long.as_nanos() as u64;
    while now_ns() < until {
        let bytes = usage(pods)?;
        ensure!(bytes < HALF, "{bytes} bytes are in use again");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// By the names of cgroup v1 and v2.
fn usage(group: &Path) -> Result<u64> {
    let files = ["memory.usage_in_bytes", "memory.current"].iter();
    let mut read = files.filter_map(|file| std::fs::read_to_string(group.join(file)).ok());
    Ok(read.next().context("no usage")?.trim().parse()?)
}
