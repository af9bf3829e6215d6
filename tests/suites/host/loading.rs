//! Kernels, users and containers that keep something from the programs: each time it is said what, and what to do about it,
//! and the rest goes on.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::{self, Case};
use serde_json::Value;

use crate::nobody::{NOBODY, Nobody};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "case_61_without the kernel's BTF there are events, and it is said what is not read",
            without_btf,
        ),
        Case::new(
            "case_61_BTF may lie elsewhere, and a file that is none is refused",
            btf_elsewhere,
        ),
        Case::new(
            "case_63_each missing capability is named with its one fix",
            without_capabilities,
        ),
        Case::new(
            "case_63_two capabilities are enough to attach what root attaches",
            with_two_capabilities,
        ),
    ]
}

/// In a mount namespace of its own, where the kernel's types are not to be found.
fn hidden_btf(arguments: &[&str]) -> Result<Output> {
    let hide = "mount -t tmpfs hidden /sys/kernel/btf && exec \"$0\" doctor --output=json \"$@\"";
    Command::new("unshare")
        .args(["--mount", "sh", "-c", hide])
        .arg(suite::programs()?.join("eviction"))
        .args(arguments)
        .output()
        .context("unshare (util-linux) does not start")
}

fn report(output: &Output) -> Result<Value> {
    let said = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&said)
        .with_context(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

fn doctor(command: &mut Command) -> Result<Value> {
    report(&command.args(["doctor", "--output=json"]).output()?)
}

/// What it says of one hook.
fn check<'a>(report: &'a Value, item: &str) -> Result<&'a Value> {
    let checks = report["checks"].as_array().context("no checks")?;
    checks
        .iter()
        .find(|check| check["item"] == item)
        .with_context(|| format!("nothing about {item} in {report:#}"))
}

fn without_btf() -> Result<()> {
    let output = hidden_btf(&[])?;
    let report = report(&output)?;
    ensure!(output.status.code() == Some(0), "{report:#}");
    for item in ["fentry/page_counter_try_charge", "fentry/inode_init_owner"] {
        let check = check(&report, item)?;
        let detail = check["detail"].as_str().unwrap_or("");
        ensure!(
            detail.contains("/sys/kernel/btf/vmlinux cannot be read"),
            "{check:#}"
        );
        let fix = check["fix"].as_str().unwrap_or("");
        ensure!(fix.contains("--btf FILE"), "{check:#}");
    }
    // These take nothing out of structures.
    for item in ["raw_tp/task_newtask", "raw_tp/ext4_allocate_inode"] {
        let check = check(&report, item)?;
        ensure!(check["state"] == "used", "{check:#}");
    }
    let memory = report["memory"].as_str().unwrap_or("none");
    ensure!(
        memory.starts_with("perf/")
            || memory.starts_with("kprobe/")
            || memory.starts_with("raw_tp/"),
        "{report:#}"
    );
    Ok(())
}

fn btf_elsewhere() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("vmlinux");
    std::fs::copy("/sys/kernel/btf/vmlinux", &copy)?;
    let flag = format!("--btf={}", copy.display());
    let found = report(&hidden_btf(&[&flag])?)?;
    let counters = check(&found, "node counters")?;
    ensure!(counters["state"] == "used", "{counters:#}");
    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "no types")?;
    for file in [wrong, folder.path().join("missing")] {
        let output = hidden_btf(&[&format!("--btf={}", file.display())])?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            output.status.code() == Some(2),
            "{:?} {said}",
            output.status
        );
        for part in ["--btf", &file.display().to_string(), "leave the flag out"] {
            ensure!(said.contains(part), "no {part:?} in {said}");
        }
    }
    Ok(())
}

fn without_capabilities() -> Result<()> {
    let report = doctor(&mut Nobody::new()?.eviction())?;
    for (item, fix) in [
        (
            "perf/page-faults",
            "run as root, or grant CAP_BPF and CAP_PERFMON",
        ),
        (
            "raw_tp/task_newtask",
            "run as root, or grant CAP_BPF and CAP_PERFMON",
        ),
        ("CAP_KILL", "run as root, or grant CAP_KILL"),
    ] {
        let check = check(&report, item)?;
        ensure!(
            check["state"] == "no-privilege" && check["fix"] == fix,
            "{check:#}"
        );
    }
    Ok(())
}

fn with_two_capabilities() -> Result<()> {
    let root = doctor(&mut Command::new(suite::programs()?.join("eviction")))?;
    let nobody = Nobody::new()?;
    let mut command = Command::new("setpriv");
    let user = NOBODY.to_string();
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups"])
        .args([
            "--inh-caps",
            "+bpf,+perfmon",
            "--ambient-caps",
            "+bpf,+perfmon",
        ])
        .arg(nobody.path())
        .current_dir("/");
    let granted = doctor(&mut command)?;
    for family in ["memory", "inodes", "ext4-bytes", "pids", "observations"] {
        ensure!(
            granted[family] == root[family],
            "{family}: {} instead of {}",
            granted[family],
            root[family]
        );
    }
    Ok(())
}
