//! `doctor` and `trace` on this machine.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::scenario::{Programs, TestTree, Workload};
use eviction_tests::suite::{self, Case, Outcome};
use serde_json::Value;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "doctor names every hook, the one in use, and a fix for each that is not",
            doctor,
        ),
        Case::new(
            "in a cpu cgroup without real-time budget the fast thread leaves it, or doctor says so",
            no_realtime_budget,
        ),
        Case::new(
            "trace shows who charges memory, by the path in the memory hierarchy",
            trace_memory,
        ),
    ]
}

fn doctor() -> Result<Outcome> {
    let program = suite::programs()?.join("eviction");
    let output = Command::new(program)
        .args(["doctor", "--output=json"])
        .output()?;
    let findings: Value =
        serde_json::from_slice(&output.stdout).context("doctor's JSON cannot be read")?;
    let memory = findings["memory"].as_str().unwrap_or("").to_owned();
    if output.status.code() != Some(0) || !memory.contains('/') {
        bail!(
            "exit {:?}, memory events from {memory:?}",
            output.status.code()
        );
    }
    let checks = findings["checks"].as_array().context("no checks")?;
    for item in [
        "fentry/page_counter_try_charge",
        "kprobe/page_counter_try_charge",
        "perf/page-faults",
        "SCHED_FIFO",
    ] {
        let check = checks
            .iter()
            .find(|c| c["item"] == item)
            .with_context(|| format!("doctor does not tell of {item}"))?;
        if check["state"] == "no-privilege" || check["detail"].as_str().is_none_or(str::is_empty) {
            bail!("{check}");
        }
    }
    Ok(Outcome::Noted(format!("memory events from {memory}")))
}

/// Kernels with CONFIG_RT_GROUP_SCHED on v1 refuse SCHED_FIFO in a new cpu cgroup, root or not: the thread that needs it leaves
/// for the root one, alone. Whoever may not do that is told of the budget.
fn no_realtime_budget() -> Result<Outcome> {
    let group = std::path::PathBuf::from(format!(
        "/sys/fs/cgroup/cpu/eviction-test-{}",
        std::process::id()
    ));
    if !std::path::Path::new("/sys/fs/cgroup/cpu/cpu.rt_runtime_us").exists() {
        return Ok(Outcome::Skipped(
            "this kernel has no real-time budgets on the v1 cpu hierarchy".into(),
        ));
    }
    std::fs::create_dir(&group)?;
    let program = suite::programs()?.join("eviction");
    let said_by = |who: &str| {
        let script = format!(
            "echo $$ > {}/cgroup.procs && exec {who} {} doctor",
            group.display(),
            program.display()
        );
        Command::new("sh").args(["-c", &script]).output()
    };
    let (ours, nobodys) = (
        said_by(""),
        said_by("setpriv --reuid=65534 --regid=65534 --clear-groups"),
    );
    std::fs::remove_dir(&group)?;
    for (output, code, words) in [
        (ours?, 0, "the fast thread alone is in the root cpu cgroup"),
        (nobodys?, 4, "cpu.rt_runtime_us"),
    ] {
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let named = said.contains(words) && said.contains("has no real-time budget");
        if output.status.code() != Some(code) || !named {
            bail!("{:?}: {said}", output.status);
        }
    }
    Ok(Outcome::Passed)
}

fn trace_memory() -> Result<Outcome> {
    let programs = Programs::in_folder(&suite::programs()?);
    let folder = tempfile::tempdir()?;
    let tree = TestTree::create("trace", 256 << 20)?;
    let root = format!("--root={}", tree.root().display());
    let args = [
        "trace",
        &root,
        "--memory-step=4Mi",
        "--count=5",
        "--seconds=60",
        "--output=json",
    ];
    let mut trace = Command::new(&programs.eviction)
        .args(args)
        .args(["--log-format=text"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // Only what is charged after the arming counts: the hog starts when trace says that it listens.
    wait_for_line(&mut trace, "tracing")?;
    let rate = (100u64 << 20).to_string();
    let hog = Workload::start(
        &programs,
        &tree,
        folder.path(),
        "hog",
        &["hog", "134217728", &rate],
        0,
    )?;
    let output = trace.wait_with_output()?;
    drop(hog);
    let lines: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("a line of the trace is no JSON")?;
    if lines.len() != 5 || !output.status.success() {
        bail!("{} lines, {:?}", lines.len(), output.status);
    }
    for line in &lines {
        let group = line["cgroup"].as_str().unwrap_or("");
        let right = group.ends_with("-trace/hog") && line["kind"] == "memory";
        if !right
            || !line["rung"].as_str().is_some_and(|r| r.contains('/'))
            || line["amount"].as_u64() == Some(0)
        {
            bail!("{line}");
        }
    }
    Ok(Outcome::Noted(format!(
        "by {}",
        lines[0]["rung"].as_str().unwrap_or("")
    )))
}

/// Reads stderr until a line has `word` in it; what follows is still read, so that the pipe never fills.
pub(crate) fn wait_for_line(child: &mut std::process::Child, word: &str) -> Result<()> {
    use std::io::{BufRead, BufReader};
    let stderr = child.stderr.take().context("stderr is not piped")?;
    let (found, waiting) = std::sync::mpsc::channel();
    let word = word.to_owned();
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if line.contains(&word) {
                // Nobody listens after the first one.
                let _ = found.send(());
            }
        }
    });
    waiting
        .recv_timeout(Duration::from_secs(30))
        .context("it never said that it is ready")
}
