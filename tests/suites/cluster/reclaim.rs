//! What the container runtime removes before a pod has to go for a disk, on a runtime with a disk of its own.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::http::get;
use eviction_tests::scenario::{Evictor, Record};
use eviction_tests::suite::{Case, Outcome};
use nix::sys::statvfs::statvfs;
use serde_json::json;
use xtask::cluster::LOAD;
use xtask::image;

use crate::api::{phase, text};
use crate::halted::Halted;
use crate::node::{self, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "an unused image goes instead of a pod, but one that has only just come does not (cases 12, 36)",
            || node::with_disks_apart(unused_image),
        ),
        Case::new(
            "what a pod that has ended left in its layer goes instead of a pod that runs; a dry run only says so",
            || node::with_disks_apart(dead_container),
        ),
        Case::new(
            "a runtime that hangs, or is not there, is told once, and then a pod goes (case 38)",
            || node::with_disks_apart(no_answer),
        ),
        Case::new(
            "left to the kubelet nothing is removed, and a pod goes",
            || node::with_disks_apart(left_to_the_kubelet),
        ),
    ]
}

const MIB: u64 = 1 << 20;
/// An image of so much takes it twice: as it came, and unpacked.
const BIG: u64 = 32 * MIB;
const LONG: Duration = Duration::from_secs(60);
const UNUSED: &str = "localhost/unused:1";
const PINNED: &str = "localhost/pinned:1";
const YOUNG: &str = "localhost/young:1";

fn free(node: &Node) -> Result<u64> {
    let disk = statvfs(&node.cluster.runtime_root())?;
    Ok(disk.blocks_available() * disk.fragment_size())
}

/// Once nobody writes any more.
fn settled(node: &Node) -> Result<u64> {
    node.until("nobody writes to the runtime's disk", 60, |node| {
        let before = free(node)?;
        std::thread::sleep(Duration::from_secs(1));
        Ok((free(node)? == before).then_some(before))
    })
}

/// Gives the runtime an image of random bytes.
fn import(node: &Node, name: &str, bytes: u64) -> Result<()> {
    let archive = node.cluster.folder.join("random.tar");
    let mut content = vec![0; usize::try_from(bytes)?];
    fastrand::fill(&mut content);
    image::write(&archive, &content, name, &[])?;
    let imported = node.cluster.import(&node.parts, &archive);
    std::fs::remove_file(archive)?;
    imported
}

pub(crate) fn ctr(node: &Node, arguments: &[&str]) -> Result<String> {
    node.cluster.run(&node.parts, "ctr", arguments)
}

fn has_image(node: &Node, name: &str) -> Result<bool> {
    Ok(images(node)?.iter().any(|image| image == name))
}

/// By all their names: the runtime gives them others, too.
fn images(node: &Node) -> Result<Vec<String>> {
    let told = ctr(node, &["images", "list", "--quiet"])?;
    Ok(told.lines().map(str::to_owned).collect())
}

/// Takes away what the story has brought.
fn leave_images(node: &Node, before: &[String]) -> Result<()> {
    for image in images(node)?.iter().filter(|image| !before.contains(image)) {
        ctr(node, &["images", "remove", "--sync", image])?;
    }
    Ok(())
}

/// Holds something in its layer, and runs on.
fn layer(name: &'static str, bytes: u64) -> Wish {
    Wish {
        load: ["write", "/old", &bytes.to_string(), "0"]
            .map(str::to_owned)
            .into(),
        ..Wish::holding(name, 0)
    }
}

/// Two that run: one is chosen if anybody is.
fn runners(node: &Node) -> Result<[Wish; 2]> {
    let runners = [layer("small", 5 * MIB), layer("large", 40 * MIB)];
    for wish in &runners {
        node.apply(&wish.pod())?;
    }
    for wish in &runners {
        node.until_running("default", wish.name)?;
    }
    Ok(runners)
}

fn start(node: &Node, told: &[&str], line: u64, state: &Path) -> Result<Evictor> {
    let told: Vec<_> = told.iter().map(|text| (*text).to_owned()).collect();
    let line = format!("imagefs.available<{line}");
    node.evictor_told(&told, &line, state)
}

/// Nobody has been evicted.
fn spared(node: &Node, evictor: &mut Evictor, runners: &[Wish]) -> Result<()> {
    evictor.drain();
    let decisions = evictor.of_kind("decision").count();
    ensure!(decisions == 0, "{:?}", evictor.seen);
    for wish in runners {
        node.lives_on("default", wish.name)?;
    }
    Ok(())
}

/// The larger one goes, after a reclaim that did not help and is told once.
fn large_goes(evictor: &mut Evictor) -> Result<Record> {
    let decision = evictor.wait_for("decision", LONG)?;
    evictor.wait_for("kill", LONG)?;
    evictor.drain();
    ensure!(
        decision.text("victim") == "large" && decision.text("signal") == "imagefs.available",
        "{decision:?}"
    );
    let reclaimed: Vec<_> = evictor.of_kind("reclaimed").cloned().collect();
    let [reclaimed] = &reclaimed[..] else {
        anyhow::bail!("not one reclaim: {reclaimed:?}");
    };
    ensure!(
        reclaimed.t_ns() <= decision.t_ns() && reclaimed.number("not_again_for_ms") == Some(60_000),
        "{reclaimed:?}, {decision:?}"
    );
    Ok(reclaimed.clone())
}

/// The record of this kind, which comes once the line is crossed: what earlier pods have left may go meanwhile, so as much more is
/// taken.
fn pressed(
    node: &Node,
    evictor: &mut Evictor,
    kind: &str,
    line: u64,
) -> Result<(Record, Option<Junk>)> {
    let mut junk = None;
    let mut taken = 0;
    for _ in 0..LONG.as_secs() {
        std::thread::sleep(Duration::from_secs(1));
        evictor.drain();
        if let Some(record) = evictor.of_kind(kind).next() {
            return Ok((record.clone(), junk));
        }
        let above = free(node)?.saturating_sub(line);
        if above > 0 {
            taken += above + MIB;
            // The first one's end would take the second one away.
            drop(junk.take());
            junk = Some(Junk::write(node, taken)?);
        }
    }
    Ok((evictor.wait_for(kind, Duration::from_secs(1))?, junk))
}

/// As the runtime knows it.
fn container_of(node: &Node, pod: &str) -> Result<String> {
    let pod = node.pod("default", pod)?;
    let id = text(&pod, "/status/containerStatuses/0/containerID");
    let id = id.strip_prefix("containerd://").context("no container")?;
    Ok(id.to_owned())
}

fn has_container(node: &Node, id: &str) -> Result<bool> {
    let told = ctr(node, &["containers", "list", "--quiet"])?;
    Ok(told.lines().any(|line| line == id))
}

fn unused_image(node: &Node) -> Result<Outcome> {
    let runners = runners(node)?;
    let there = images(node)?;
    import(node, UNUSED, BIG)?;
    import(node, PINNED, MIB)?;
    let pin = ["images", "label", PINNED, "io.cri-containerd.pinned=pinned"];
    ctr(node, &pin)?;
    let before = settled(node)?;
    let state = tempfile::tempdir()?;
    let mut evictor = start(node, &[], before + BIG, state.path())?;
    let (begun, junk) = pressed(node, &mut evictor, "reclaim", before + BIG)?;
    ensure!(
        begun.0["by"] == "runtime"
            && begun.0["calls"] == json!(["dead containers", "unused images"]),
        "{begun:?}"
    );
    let reclaimed = evictor.wait_for("reclaimed", LONG)?;
    let freed = reclaimed.0["freed_bytes"].as_u64().unwrap_or(0);
    ensure!(
        reclaimed.0["good"] == true
            && reclaimed.0["removed"]["images"].as_u64() >= Some(1)
            && reclaimed.0["removed"]["image_bytes"].as_u64() >= Some(BIG)
            && freed > BIG * 3 / 2,
        "{reclaimed:?}"
    );
    ensure!(!has_image(node, UNUSED)?, "the unused image is still there");
    for kept in [PINNED, LOAD, "localhost/pause:1"] {
        ensure!(has_image(node, kept)?, "{kept} is gone");
    }
    spared(node, &mut evictor, &runners)?;
    let started = evictor.wait_for("started", Duration::from_secs(1))?;
    let address = started.text("metrics").parse().context("no address")?;
    let metrics = get(address, "/metrics")?.body;
    for counted in [
        r#"eviction_reclaims_total{signal="imagefs.available",outcome="done"} 1"#,
        r#"eviction_reclaim_removed_total{what="images"} "#,
    ] {
        ensure!(metrics.contains(counted), "without {counted}: {metrics}");
    }
    let mut of_images = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("eviction_reclaim_removed_image_bytes_total "));
    let bytes = of_images.next().map(str::parse::<u64>).transpose()?;
    ensure!(bytes >= Some(BIG), "{bytes:?}: {metrics}");
    // It is too young to go; what pods of earlier stories had left may have gone with the other, so more is taken than that.
    evictor.seen.clear();
    drop(junk);
    import(node, YOUNG, BIG)?;
    let above = free(node)?.saturating_sub(before + BIG);
    let junk = Junk::write(node, above + BIG / 4)?;
    let young = large_goes(&mut evictor)?;
    ensure!(
        young.0["good"] == true && young.0["removed"]["images"] == 0,
        "{young:?}"
    );
    ensure!(has_image(node, YOUNG)?, "the young image is gone");
    drop((evictor, junk));
    leave_images(node, &there)?;
    Ok(Outcome::Noted(format!(
        "{freed} bytes freed, {}",
        reclaimed.0
    )))
}

fn dead_container(node: &Node) -> Result<Outcome> {
    let runners = runners(node)?;
    let mut pod = Wish {
        restart: "Never",
        ..layer("ended", BIG)
    }
    .pod();
    // It does not end by itself.
    pod["spec"]["activeDeadlineSeconds"] = json!(5);
    node.apply(&pod)?;
    node.until("the pod has ended", 60, |node| {
        let pod = node.pod("default", "ended")?;
        let status = pod.pointer("/status/containerStatuses/0/state/terminated");
        Ok((phase(&pod) == "Failed" && status.is_some()).then_some(()))
    })?;
    let left = settled(node)?;
    let state = tempfile::tempdir()?;
    let line = left + BIG / 2;
    // It says what it would do.
    let mut dry = start(node, &["--dry-run"], line, state.path())?;
    let (would, junk) = pressed(node, &mut dry, "reclaimed", line)?;
    drop((dry, junk));
    // Those of pods that are gone may still be there, too.
    ensure!(
        would.0["dry_run"] == true && would.0["removed"]["containers"].as_u64() >= Some(1),
        "{would:?}"
    );
    let container = container_of(node, "ended")?;
    ensure!(has_container(node, &container)?, "a dry run has removed it");
    let mut evictor = start(node, &[], line, state.path())?;
    let (reclaimed, junk) = pressed(node, &mut evictor, "reclaimed", line)?;
    ensure!(!has_container(node, &container)?, "it was not removed");
    ensure!(
        reclaimed.0["good"] == true
            && reclaimed.0["removed"]["containers"].as_u64() >= Some(1)
            && reclaimed.0["freed_bytes"].as_u64() > Some(BIG / 2),
        "{reclaimed:?}"
    );
    spared(node, &mut evictor, &runners)?;
    drop(junk);
    // What the kubelet has written down of it stays.
    let pod = node.pod("default", "ended")?;
    let code = pod.pointer("/status/containerStatuses/0/state/terminated/exitCode");
    ensure!(
        phase(&pod) == "Failed"
            && text(&pod, "/status/reason") == "DeadlineExceeded"
            && code.is_some(),
        "{pod}"
    );
    Ok(Outcome::Noted(reclaimed.0.to_string()))
}

/// Takes so much of the runtime's disk, of nobody's.
struct Junk(std::path::PathBuf);

impl Junk {
    fn write(node: &Node, bytes: u64) -> Result<Self> {
        let path = node.cluster.runtime_root().join("junk");
        std::fs::write(&path, vec![1; usize::try_from(bytes)?])?;
        Ok(Self(path))
    }
}

impl Drop for Junk {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn no_answer(node: &Node) -> Result<Outcome> {
    runners(node)?;
    let before = settled(node)?;
    let state = tempfile::tempdir()?;
    let mut evictor = start(node, &[], before - BIG, state.path())?;
    let halted = Halted::program(node, "containerd")?;
    let junk = Junk::write(node, 2 * BIG)?;
    let hung = large_goes(&mut evictor);
    drop(halted);
    let hung = hung?;
    ensure!(
        hung.text("end").contains("does not answer within") && hung.0["good"] == false,
        "{hung:?}"
    );
    drop((junk, evictor));
    node.clean()?;

    runners(node)?;
    let before = settled(node)?;
    let state = tempfile::tempdir()?;
    let nobody = state.path().join("nobody.sock");
    let endpoint = format!("--container-runtime-endpoint=unix://{}", nobody.display());
    let root = format!("--runtime-root={}", node.cluster.runtime_root().display());
    let told = [&*endpoint, &*root, "--reclaim=runtime"];
    let mut evictor = start(node, &told, before + BIG, state.path())?;
    let refused = large_goes(&mut evictor)?;
    ensure!(
        refused.text("end").contains("nobody.sock: No such file") && refused.0["good"] == false,
        "{refused:?}"
    );
    Ok(Outcome::Noted(format!(
        "hung: {}, refused: {}",
        hung.0, refused.0
    )))
}

fn left_to_the_kubelet(node: &Node) -> Result<()> {
    runners(node)?;
    let there = images(node)?;
    import(node, UNUSED, BIG)?;
    let before = settled(node)?;
    let state = tempfile::tempdir()?;
    let wrong = start(node, &["--reclaim=true"], before + BIG, state.path());
    let wrong = wrong
        .err()
        .map_or(String::new(), |error| format!("{error:#}"));
    ensure!(
        wrong.contains("`runtime`") && wrong.contains("`off`"),
        "{wrong}"
    );
    let mut evictor = start(node, &["--reclaim=off"], before + BIG, state.path())?;
    let decision = evictor.wait_for("decision", LONG)?;
    evictor.wait_for("kill", LONG)?;
    evictor.drain();
    let reclaims = evictor.of_kind("reclaim").count();
    ensure!(
        decision.text("victim") == "large" && reclaims == 0,
        "{decision:?}, {reclaims} reclaims"
    );
    ensure!(has_image(node, UNUSED)?, "the unused image is gone");
    drop(evictor);
    leave_images(node, &there)
}
