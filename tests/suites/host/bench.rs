//! The benchmarks as commands: each runs, in a few rounds, and says what it should. What they measure is no test's business.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use eviction_tests::scenario::{TestTree, wait_until};
use eviction_tests::suite::{self, Case, Outcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "case_68_bench notify tells of a storm of inodes or forks by one event per arming",
            storms,
        ),
        Case::new(
            "bench notify has a row for each source and misses no crossing",
            notify,
        ),
        Case::new("bench kill stops each victim before its limit", victims),
        Case::new("bench idle tells CPU time and memory", idle),
        Case::new(
            "bench cost has a ratio for each loop and counts each program's runs",
            cost,
        ),
        Case::new(
            "a benchmark that cannot be run as asked is refused with the flag's name",
            refused,
        ),
        Case::new(
            "Ctrl-C in the middle of a benchmark leaves nothing behind",
            interrupted,
        ),
    ]
}

fn bench(args: &[&str]) -> Result<Command> {
    let mut command = Command::new(suite::programs()?.join("eviction"));
    command.arg("bench").args(args);
    Ok(command)
}

fn measured(args: &[&str]) -> Result<Value> {
    let output = bench(args)?.arg("--output=json").output()?;
    ensure!(
        output.status.success(),
        "{:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).context("no JSON")
}

fn rows<'a>(figures: &'a Value, list: &str, many: usize) -> Result<&'a Vec<Value>> {
    let rows = figures[list].as_array();
    rows.filter(|rows| rows.len() == many)
        .with_context(|| format!("not {many} {list}: {figures}"))
}

fn are_numbers(row: &Value, keys: &[&str]) -> Result<()> {
    for key in keys {
        ensure!(row[key].is_number(), "{key} is no number: {row}");
    }
    Ok(())
}

fn notify() -> Result<Outcome> {
    let figures = measured(&["notify", "--rounds=3", "--load=cpu"])?;
    let rows = rows(&figures, "results", 5)?;
    let v1 = TestTree::hierarchy().ends_with("memory");
    let kernel = if v1 { "memcg-eventfd" } else { "memory-events" };
    let expected = [
        "bpf",
        kernel,
        &format!("{kernel}-fifo"),
        "poll-1ms",
        "wakeup",
    ];
    for (row, source) in rows.iter().zip(expected) {
        let keys: Vec<_> = row.as_object().into_iter().flat_map(|o| o.keys()).collect();
        let exactly = [
            "load", "max_us", "missed", "p50_us", "p90_us", "p99_us", "rounds", "rung", "source",
        ];
        ensure!(keys == exactly, "{row}");
        let as_asked = row["source"] == source && row["rounds"] == 3 && row["load"] == "cpu";
        ensure!(as_asked && row["missed"] == 0, "{row}, expected {source}");
        are_numbers(row, &["p50_us", "p90_us", "p99_us", "max_us"])?;
    }
    Ok(Outcome::Noted(format!("by {}", rows[0]["rung"])))
}

fn storms() -> Result<()> {
    for storm in ["inodes", "forks"] {
        let asked = format!("--storm={storm}");
        let figures = measured(&["notify", "--rounds=20", &asked])?;
        let rows = rows(&figures, "results", 4)?;
        for (row, (source, stormy)) in rows.iter().zip([
            ("bpf", false),
            ("bpf", true),
            ("wakeup", false),
            ("wakeup", true),
        ]) {
            ensure!(row["source"] == source && row["missed"] == 0, "{row}");
            ensure!((row["storm"] == storm) == stormy, "{row}");
        }
        let [armings, events, units] =
            ["storm_armings", "storm_events", "storm_units"].map(|key| rows[1][key].as_u64());
        ensure!(events <= armings, "more events than armings: {}", rows[1]);
        ensure!(events > Some(0) && units > events, "no storm: {}", rows[1]);
    }
    Ok(())
}

fn victims() -> Result<()> {
    let figures = measured(&["kill", "--rounds=2", "--rates=100,400"])?;
    for (row, rate) in rows(&figures, "results", 2)?.iter().zip([100, 400]) {
        let as_asked = row["rate_mib_s"] == rate && row["rounds"] == 2;
        ensure!(
            as_asked && row["too_late"] == 0 && row["too_early"] == 0,
            "{row}"
        );
        let keys = [
            "stopped_p50_us",
            "stopped_max_us",
            "overshoot_p50_mib",
            "overshoot_max_mib",
        ];
        are_numbers(row, &keys)?;
    }
    Ok(())
}

fn idle() -> Result<()> {
    let figures = measured(&["idle", "--seconds=1", "--cgroups=5"])?;
    let row = &rows(&figures, "results", 1)?[0];
    ensure!(row["cgroups"] == 5 && row["charging_mib_s"] == 10, "{row}");
    are_numbers(row, &["seconds", "cpu_percent", "rss_mib"])
}

fn cost() -> Result<Outcome> {
    let figures = measured(&["cost", "--pairs=2", "--loop-millis=2"])?;
    let loops = ["page-faults", "file-creation", "4k-writes", "forks"];
    for (row, name) in rows(&figures, "results", loops.len())?.iter().zip(loops) {
        ensure!(row["loop"] == name && row["pairs"] == 2, "{row}");
        are_numbers(row, &["plain_ns", "ratio"])?;
    }
    let programs = figures["programs"].as_array().context("no programs")?;
    let used = figures["sources"]["memory"].as_str().unwrap_or("");
    let runs = programs
        .iter()
        .find(|p| p["rung"] == used && p["loop"] == "page-faults");
    let runs = runs.with_context(|| format!("no runs of {used} in page faults: {figures}"))?;
    are_numbers(runs, &["runs_per_operation", "ns_per_run", "share_percent"])?;
    are_numbers(
        &figures["fentry"],
        &["runs_per_fault", "ns_per_run", "share_percent"],
    )?;
    Ok(Outcome::Noted(format!("by {used}")))
}

fn refused() -> Result<()> {
    for (args, named) in [
        (["notify", "--rounds=0"], "--rounds"),
        (["notify", "--load=disk"], "--load"),
        (["kill", "--rates=50,fast"], "--rates"),
        (["idle", "--seconds=0"], "--seconds"),
        (["cost", "--directory=/no/such/place"], "--directory"),
    ] {
        let output = bench(&args)?.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if output.status.code() != Some(2) || !said.contains(named) {
            bail!("{args:?}: {:?}, {said}", output.status);
        }
    }
    Ok(())
}

fn interrupted() -> Result<()> {
    let mut running = bench(&["notify", "--rounds=1000000", "--load=cpu"])?
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let group = format!("{}/eviction-bench-{}", TestTree::hierarchy(), running.id());
    let taker = Path::new(&group).join("taker/cgroup.procs");
    // The taker, and at least one that keeps a CPU busy.
    let busy = || {
        let taken = std::fs::read_to_string(&taker).is_ok_and(|pids| !pids.is_empty());
        Some(children_of(running.id())).filter(|children| taken && children.len() > 1)
    };
    let begun = wait_until(Duration::from_secs(60), busy);
    kill(Pid::from_raw(i32::try_from(running.id())?), Signal::SIGINT)?;
    let ended = wait_until(Duration::from_secs(30), || {
        running.try_wait().ok().flatten()
    });
    if ended.is_none() {
        running.kill()?;
        running.wait()?;
    }
    let helpers = begun.context("it never came to its rounds")?;
    let status = ended.context("it did not end within 30 s")?;
    ensure!(status.code() == Some(1), "{status:?}");
    ensure!(!Path::new(&group).exists(), "{group} is still there");
    let gone = wait_until(Duration::from_secs(10), || {
        let left = helpers
            .iter()
            .any(|pid| Path::new("/proc").join(pid).exists());
        (!left).then_some(())
    });
    gone.with_context(|| format!("of its processes {helpers:?} some still run"))
}

/// The processes whose parent that is.
fn children_of(parent: u32) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let line = format!("PPid:\t{parent}\n");
    let is_child = |pid: &String| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        status.is_ok_and(|status| status.contains(&line))
    };
    names.filter(is_child).collect()
}
