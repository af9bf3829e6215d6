//! The program killed at each step of an eviction, by name and not by luck.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::load::now_ns;
use eviction_tests::scenario::{Evictor, wait_until};
use eviction_tests::suite::{Case, Outcome};
use eviction_user::sys::fault::Point;
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::api::{check_record, phase, record, restarts, text};
use crate::disk::with_right_to_delete;
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    let steps = ["Always", "Never"].map(|restart| {
        Case::new(
            format!("killed at each step of an eviction, restart policy {restart}"),
            move || node::with(|node| at_each_step(node, restart)),
        )
    });
    let deletion = Case::new(
        "killed before and after a victim's object is deleted",
        || node::with(|node| with_right_to_delete(node, deletion)),
    );
    steps.into_iter().chain([deletion]).collect()
}

/// What the next process finds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// No word of it: whoever crosses the line is evicted anew.
    Nothing,
    /// The record: it is seen through.
    Record,
    /// All is done, but for the list of victims.
    Done,
}

fn left_at(point: Point) -> Left {
    match point {
        Point::Decided | Point::KilledNotRecorded | Point::KeptNotRecorded => Left::Nothing,
        Point::RecordedNotKilled
        | Point::Frozen
        | Point::RecordedNotKept
        | Point::NotPatched
        | Point::Patched
        | Point::TeardownAwaited
        | Point::NotDeleted
        | Point::Deleted
        | Point::VolumesAwaited
        | Point::RecordNotRemoved => Left::Record,
        Point::RecordRemoved | Point::VictimNotRemoved => Left::Done,
    }
}

/// Killed when the API server does not know: the kubelet may start it again before the next process is there.
fn may_be_started_again(point: Point) -> bool {
    matches!(
        point,
        Point::KilledNotRecorded
            | Point::KeptNotRecorded
            | Point::RecordedNotKept
            | Point::NotPatched
    )
}

/// By itself, at its fault point.
fn until_killed(evictor: &mut Evictor, point: Point) -> Result<()> {
    let is_over = wait_until(Duration::from_secs(60), || {
        evictor.drain();
        // The volumes may be gone before the loop has looked for them: one half of the program waits for the other then, for ever.
        let is_past = point == Point::VolumesAwaited && evictor.of_kind("gone").next().is_some();
        (is_past || evictor.has_ended()).then_some(is_past)
    });
    if is_over == Some(true) {
        evictor.kill()?;
    }
    let (status, said) = evictor
        .ended(Duration::from_secs(1))
        .with_context(|| format!("it did not die; it printed {:?}", evictor.seen))?;
    ensure!(
        status.signal() == Some(Signal::SIGKILL as i32),
        "it died by {status}; stderr: {said}"
    );
    Ok(())
}

/// One after the other, each pod under its point's name.
fn at_each_step(node: &Node, restart: &'static str) -> Result<Outcome> {
    let sibling = Wish {
        request: Some("128Mi"),
        ..Wish::holding("sibling", 100)
    };
    node.apply(&sibling.pod())?;
    node.until_running("default", "sibling")?;
    // On cgroup v2 the kernel kills the whole cgroup, and nothing is frozen.
    let freezes = Path::new("/sys/fs/cgroup/freezer").is_dir();
    let mut points = Vec::from(Point::ALL);
    points.retain(|&point| freezes || point != Point::Frozen);
    points.retain(|point| !point.is_of_deletion());
    // By the kubelet's own account such a pod has failed, and there is nobody left to be evicted.
    points.retain(|&point| {
        restart == "Always" || left_at(point) != Left::Nothing || point == Point::Decided
    });
    let mut told = Vec::new();
    for &point in &points {
        let began = now_ns();
        let again = at_one_step(node, restart, point)
            .with_context(|| format!("killed at the point {}", point.name()))?;
        let seconds = (now_ns() - began) as f64 / 1e9;
        told.push(format!("{} {seconds:.1} s, {again}", point.name()));
    }
    let watched = node.stay_evicted("default")?;
    ensure!(watched == points.len(), "{watched} are on record");
    node.lives_on("default", "sibling")?;
    Ok(Outcome::Noted(format!(
        "{watched} evicted, none revived; times that the container was started again: {}",
        told.join("; ")
    )))
}

/// How often its container was started again.
fn at_one_step(node: &Node, restart: &'static str, point: Point) -> Result<u64> {
    let state = tempfile::tempdir()?;
    // The disk has room: by its line the program knows where the pods' volumes are.
    let line = format!("{LINE},nodefs.available<1Mi");
    let mut evictor = node.evictor_until(point, &line, false, state.path())?;
    let hog = Wish {
        restart,
        volume: Some("/data"),
        ..Wish::stopping_hog(point.name(), 1500)
    };
    node.apply(&hog.pod())?;
    until_killed(&mut evictor, point)?;
    let pod = node.pod("default", point.name())?;
    let uid = text(&pod, "/metadata/uid").to_owned();
    let begun = begun(state.path())?;
    let kept = victims(state.path())?;
    match left_at(point) {
        Left::Nothing => ensure!(begun.is_empty(), "{begun:?}"),
        Left::Record => ensure!(begun.len() == 1 && begun[0]["uid"] == *uid, "{begun:?}"),
        Left::Done => ensure!(begun.is_empty() && kept.contains(&uid), "{begun:?} {kept}"),
    }

    let mut next = node.evictor_of_disks(&line, false, state.path())?;
    let pod = node.until("it is on record and torn down", 60, |node| {
        let pod = node.pod("default", point.name())?;
        let stopped = pod.pointer("/status/containerStatuses/0/state/terminated");
        let is_done = !record(&pod).is_empty() && phase(&pod) == "Failed" && stopped.is_some();
        Ok(is_done.then_some(pod))
    })?;
    let message = check_record(&pod)?;
    ensure!(
        message.starts_with("The node was low on resource: memory. "),
        "{message}"
    );
    if let Some(begun) = begun.first() {
        ensure!(
            record(&pod).starts_with(text(begun, "/id")),
            "{} is not the record that was begun: {begun}",
            record(&pod)
        );
    }
    let again = restarts(&pod).context("no restarts")?;
    ensure!(
        again == 0 || may_be_started_again(point),
        "started again {again} times"
    );
    until_nothing_is_left(node, state.path(), &uid)?;
    check_decisions(&mut next, point, &uid)?;
    node.lives_on("default", "sibling")?;
    Ok(again)
}

/// The next process deletes what is not deleted yet, and nobody else goes.
fn deletion(node: &Node) -> Result<()> {
    let sibling = Wish {
        request: Some("128Mi"),
        ..Wish::holding("sibling", 100)
    };
    node.apply(&sibling.pod())?;
    node.until_running("default", "sibling")?;
    for point in [Point::NotDeleted, Point::Deleted] {
        at_deletion(node, point).with_context(|| format!("killed at {}", point.name()))?;
    }
    Ok(())
}

fn at_deletion(node: &Node, point: Point) -> Result<()> {
    let state = tempfile::tempdir()?;
    let line = format!("{LINE},nodefs.available<1Mi");
    let mut evictor = node.evictor_until(point, &line, true, state.path())?;
    let hog = Wish {
        volume: Some("/data"),
        ..Wish::stopping_hog(point.name(), 1500)
    };
    node.apply(&hog.pod())?;
    let uid = text(&node.pod("default", point.name())?, "/metadata/uid").to_owned();
    until_killed(&mut evictor, point)?;
    let begun = begun(state.path())?;
    ensure!(begun.len() == 1 && begun[0]["uid"] == *uid, "{begun:?}");
    let is_there = |node: &Node| -> Result<bool> {
        let selector = format!("--field-selector=metadata.name={}", point.name());
        let left = node.get(&["pods", &selector])?;
        Ok(left["items"]
            .as_array()
            .is_some_and(|left| !left.is_empty()))
    };
    if point == Point::NotDeleted {
        let pod = node.pod("default", point.name())?;
        ensure!(phase(&pod) == "Failed" && !record(&pod).is_empty(), "{pod}");
    } else {
        // The kubelet has ended it already, so it goes at once.
        node.until("the object is gone", 10, |node| {
            Ok((!is_there(node)?).then_some(()))
        })?;
    }
    let mut next = node.evictor_of_disks(&line, true, state.path())?;
    node.until("the object is deleted", 60, |node| {
        Ok((!is_there(node)?).then_some(()))
    })?;
    until_nothing_is_left(node, state.path(), &uid)?;
    next.drain();
    let decisions: Vec<&str> = next.of_kind("decision").map(|d| d.text("uid")).collect();
    ensure!(decisions.is_empty(), "the next process chose {decisions:?}");
    node.lives_on("default", "sibling")
}

/// Nobody is evicted twice, and nobody else.
fn check_decisions(next: &mut Evictor, point: Point, uid: &str) -> Result<()> {
    next.drain();
    let decisions: Vec<&str> = next.of_kind("decision").map(|d| d.text("uid")).collect();
    let expected: &[&str] = match left_at(point) {
        Left::Nothing => &[uid],
        Left::Record | Left::Done => &[],
    };
    ensure!(
        decisions == expected,
        "the next process chose {decisions:?}"
    );
    // What is done with before it can be taken over is not.
    let taken: Vec<&str> = next.of_kind("taken-over").map(|t| t.text("uid")).collect();
    ensure!(
        taken.is_empty() || (taken == [uid] && left_at(point) == Left::Record),
        "the next process took over {taken:?}"
    );
    if !decisions.is_empty() || !taken.is_empty() {
        next.wait_for("gone", Duration::from_secs(60))?;
    }
    Ok(())
}

/// On the node and on disk.
fn until_nothing_is_left(node: &Node, state: &Path, uid: &str) -> Result<()> {
    node.until("its cgroup and its volume are gone", 30, |node| {
        Ok((!node.has_group(uid)? && !node.has_volume(uid)).then_some(()))
    })?;
    node.until("nothing of it is on disk", 30, |_| {
        let records = std::fs::read_dir(state.join("records"))?.count();
        Ok((records == 0 && !victims(state)?.contains(uid)).then_some(()))
    })
}

/// The records that are said to be unfinished.
fn begun(state: &Path) -> Result<Vec<Value>> {
    let files = std::fs::read_dir(state.join("records"))?;
    let records = files.map(|file| {
        let content = std::fs::read(file?.path())?;
        Ok(serde_json::from_slice(&content)?)
    });
    records.collect()
}

/// Those that are said to be on their way out.
fn victims(state: &Path) -> Result<String> {
    Ok(std::fs::read_to_string(state.join("victims.json"))?)
}
