//! What `run` and `trace` tell beside evictions: OOM kills, stalls, and all of it from within a container too.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use eviction_tests::scenario::{
    Events, Evictor, OomStory, Programs, TestTree, Told, Workload, in_namespace,
};
use eviction_tests::suite::{self, Case, Outcome};
use serde_json::Value;

use crate::observe::wait_for_line;

const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than an event may wait without being told of.
const HALT: Duration = Duration::from_millis(400);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "case_13_an OOM kill is told with its cgroup, kept, and agrees with the kernel's counters",
            oom_by_event,
        ),
        Case::new(
            "case_13_without eBPF an OOM kill is known by the kernel's counters",
            oom_by_counter,
        ),
        Case::new(
            "case_69_in a cgroup namespace of its own it still knows every cgroup",
            oom_in_namespace,
        ),
        Case::new(
            "case_69_in a cgroup namespace of its own it still spares itself",
            spares_itself,
        ),
        Case::new(
            "case_64_65_neither bpffs nor tracefs is needed",
            without_other_file_systems,
        ),
        Case::new(
            "case_68_a reader that was halted says how late it was, and still evicts",
            halted,
        ),
        Case::new(
            "trace shows OOM kills, stalls in reclaim and new tasks",
            trace_all,
        ),
    ]
}

fn programs() -> Result<Programs> {
    Ok(Programs::in_folder(&suite::programs()?))
}

fn judged(told: &Told, by_counter: bool) -> Result<()> {
    let faults = told.faults(by_counter);
    ensure!(faults.is_empty(), faults.join("\n"));
    Ok(())
}

fn oom_by_event() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut story = OomStory::new(Events::Auto);
    story
        .extra_args
        .push(format!("--record={}", folder.path().display()));
    judged(&story.run(&programs()?)?, false)?;
    let replay = Command::new(programs()?.eviction)
        .arg("replay")
        .arg(folder.path())
        .arg("--recorded")
        .output()?;
    let said = String::from_utf8_lossy(&replay.stdout).into_owned();
    ensure!(said.contains("OOM killer chose process"), "{said}");
    Ok(())
}

fn oom_by_counter() -> Result<()> {
    judged(&OomStory::new(Events::Timer).run(&programs()?)?, true)
}

fn oom_in_namespace() -> Result<()> {
    let story = OomStory {
        in_namespace: true,
        ..OomStory::new(Events::Auto)
    };
    judged(&story.run(&programs()?)?, false)
}

fn spares_itself() -> Result<()> {
    let tree = TestTree::create("self", 256 << 20)?;
    let groups = tree.add("self")?;
    let mut command = Command::new(programs()?.eviction);
    command
        .args(["explain", "--platform=host", "--output=json"])
        .arg(format!("--root={}", tree.root().display()))
        .arg("--eviction-hard=allocatableMemory.available<255Mi");
    in_namespace(&mut command, &groups)?;
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Value = serde_json::from_str(&said)
        .with_context(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    let candidate = &report["rankings"][0]["candidates"][0];
    ensure!(
        candidate["name"] == "self" && candidate["why_not"] == "our own pod",
        "{report:#}"
    );
    Ok(())
}

/// As in a container: nothing but /sys itself.
fn without_other_file_systems() -> Result<Outcome> {
    let hide = "for at in /sys/fs/bpf /sys/kernel/tracing /sys/kernel/debug; do \
                [ ! -d $at ] || mount -t tmpfs hidden $at || exit 1; done; exec \"$0\" doctor --output=json";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", hide])
        .arg(programs()?.eviction)
        .output()
        .context("unshare (util-linux) does not start")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let report: Value = serde_json::from_str(&said)
        .with_context(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    let sources = ["memory", "inodes", "pids", "observations"].map(|family| &report[family]);
    let attached = |source: &&Value| source.as_str().is_some_and(|name| name.contains('/'));
    ensure!(
        sources.iter().all(attached) && report["facts"]["tracefs"] == false,
        "{report:#}"
    );
    Ok(Outcome::Noted(format!("memory events from {}", sources[0])))
}

fn halted() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tree = TestTree::create("halted", 256 << 20)?;
    let args = [
        "--platform=host".to_owned(),
        format!("--root={}", tree.root().display()),
        "--eviction-hard=allocatableMemory.available<64Mi".to_owned(),
    ];
    let mut evictor = Evictor::start(&programs()?, &args)?;
    evictor.wait_for("started", PATIENCE)?;
    evictor.halt(true)?;
    let bytes = 200_u64 << 20;
    let hold = ["hold", &bytes.to_string()];
    let mut hog = Workload::start(&programs()?, &tree, folder.path(), "hog", &hold, 0)?;
    hog.reaches(bytes, PATIENCE)?;
    std::thread::sleep(HALT);
    evictor.halt(false)?;
    let late = evictor.wait_for("event-late", PATIENCE)?;
    let waited = late.number("waited_us").unwrap_or(0);
    ensure!(u128::from(waited) >= HALT.as_micros(), "{}", late.0);
    evictor.wait_for("gone", PATIENCE)?;
    ensure!(!hog.is_alive(), "the hog still runs");
    Ok(())
}

fn trace_all() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tree = TestTree::create("told", 48 << 20)?;
    let mut trace = Command::new(programs()?.eviction)
        .args(["trace", "--memory-step=1Gi", "--task-step=1", "--count=400"])
        .args(["--seconds=60", "--output=json", "--log-format=text"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    wait_for_line(&mut trace, "tracing")?;
    let hog = ["hog", "134217728", "0"];
    let hog = Workload::start(&programs()?, &tree, folder.path(), "hog", &hog, 0)?;
    let stdout = trace.stdout.take().context("stdout is not piped")?;
    let mut missing = vec!["oom", "reclaim", "task"];
    for line in std::io::BufRead::lines(std::io::BufReader::new(stdout)) {
        let line: Value = serde_json::from_str(&line?)?;
        let kind = line["kind"].as_str().unwrap_or("").to_owned();
        let of_hog = line["cgroup"]
            .as_str()
            .is_some_and(|group| group.ends_with("-told/hog"));
        if kind == "task" || of_hog {
            missing.retain(|wanted| *wanted != kind);
        }
        if kind == "reclaim" && of_hog && line["stall_us"].as_u64() == Some(0) {
            bail!("{line}");
        }
        if missing.is_empty() {
            break;
        }
    }
    drop(hog);
    trace.kill()?;
    trace.wait()?;
    ensure!(missing.is_empty(), "no line of {missing:?}");
    Ok(())
}
