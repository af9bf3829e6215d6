//! `explain` on this machine.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::nobody::Nobody;
use anyhow::{Context, Result, bail};
use eviction_tests::scenario::{Programs, TestTree, Workload};
use eviction_tests::suite::{self, Case, Outcome};
use serde_json::Value;

const LIMIT: u64 = 256 << 20;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "explain ranks every workload with its keys and why it lost (case 27)",
            ranks,
        ),
        Case::new(
            "explain says what it cannot know: inode use without counters",
            says_what_is_missing,
        ),
        Case::new("explain works without root", works_without_root),
        Case::new("explain with a wrong flag is refused, exit code 2", refuses),
    ]
}

fn explain(program: &Path, arguments: &[&str]) -> Command {
    explain_with(Command::new(program), arguments)
}

fn explain_with(mut eviction: Command, arguments: &[&str]) -> Command {
    eviction
        .args(["explain", "--platform=host"])
        .args(arguments)
        .stdin(Stdio::null());
    eviction
}

fn json(output: &Output) -> Result<Value> {
    if output.status.code() != Some(0) {
        bail!(
            "{:?}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
    }
    serde_json::from_slice(&output.stdout).context("no JSON")
}

fn ranks() -> Result<()> {
    let programs = Programs::in_folder(&suite::programs()?);
    let folder = tempfile::tempdir()?;
    let tree = TestTree::create("explain", LIMIT)?;
    let mut loads = Vec::new();
    for (name, mib) in [("small", 16u64), ("hog", 64), ("dear", 96)] {
        let bytes = mib << 20;
        let text = bytes.to_string();
        let arguments = ["hold", text.as_str()];
        let mut load = Workload::start(&programs, &tree, folder.path(), name, &arguments, 0)?;
        load.reaches(bytes, Duration::from_secs(60))?;
        loads.push(load);
    }
    let root = format!("--root={}", tree.root().display());
    let arguments = [
        root.as_str(),
        "--eviction-hard=allocatableMemory.available<250Mi",
        "--workload=dear:priority=10",
    ];
    let output = explain(&programs.eviction, &arguments)
        .arg("--output=json")
        .output()?;
    let report = json(&output)?;
    let signal = &report["signals"][0];
    if signal["signal"] != "allocatableMemory.available"
        || signal["met"] != true
        || signal["left"].as_i64().is_none_or(|left| left > 0)
    {
        bail!("{signal}");
    }
    let ranking = &report["rankings"][0];
    let rows = ranking["candidates"].as_array().context("no candidates")?;
    let said: Vec<_> = rows
        .iter()
        .map(|row| (row["name"].as_str(), row["why_not"].as_str()))
        .collect();
    let expected = [
        (Some("hog"), None),
        (Some("small"), Some("uses less above its request")),
        (Some("dear"), Some("has a higher priority")),
    ];
    if said != expected || ranking["victim"] != "hog" {
        bail!("{ranking}");
    }
    if rows[0]["usage"].as_u64().is_none_or(|used| used < 64 << 20) {
        bail!("hog holds 64 MiB: {}", rows[0]);
    }
    if !loads.iter_mut().all(Workload::is_alive) {
        bail!("explain must not kill");
    }
    let page = explain(&programs.eviction, &arguments).output()?;
    let page = String::from_utf8(page.stdout)?;
    if !page.contains("memory: short; hog goes first")
        || page.lines().any(|line| line.chars().count() > 100)
    {
        bail!("{page}");
    }
    Ok(())
}

fn says_what_is_missing() -> Result<Outcome> {
    let programs = Programs::in_folder(&suite::programs()?);
    let folder = tempfile::tempdir()?;
    let counted = folder.path().join("counted");
    std::fs::create_dir(&counted)?;
    for name in ["a", "b", "c"] {
        std::fs::write(counted.join(name), "")?;
    }
    let tree = TestTree::create("explain-inodes", LIMIT)?;
    tree.add("with")?;
    tree.add("without")?;
    let nodefs = format!("--nodefs={}", folder.path().display());
    let output = explain(
        &programs.eviction,
        &[
            &format!("--root={}", tree.root().display()),
            "--eviction-hard=nodefs.inodesFree<1",
            &nodefs,
            &format!("--workload=with:dir={}", counted.display()),
            "--output=json",
        ],
    )
    .output()?;
    if String::from_utf8_lossy(&output.stderr).contains("makes inodes as needed") {
        let why = "temporary files lie on a file system without an inode table";
        return Ok(Outcome::Skipped(why.to_owned()));
    }
    let report = json(&output)?;
    let place = report["signals"][0]["place"].as_str().unwrap_or("");
    if !place.starts_with("device ") {
        bail!("case 20: the disk signal names device and mount, not {place:?}");
    }
    let missing = report["missing"][0].as_str().unwrap_or("");
    if !missing.contains("the disk and inode use of without is unknown")
        || !missing.contains("dir=PATH")
    {
        bail!("{report}");
    }
    let rows = report["rankings"][0]["candidates"]
        .as_array()
        .context("no candidates")?;
    let usage = |name: &str| {
        rows.iter()
            .find(|row| row["name"] == name)
            .map(|row| &row["usage"])
    };
    if usage("with") != Some(&Value::from(4)) || usage("without") != Some(&Value::Null) {
        bail!("{report}");
    }
    Ok(Outcome::Passed)
}

fn works_without_root() -> Result<()> {
    let nobody = Nobody::new()?;
    let tree = TestTree::create("explain-nobody", LIMIT)?;
    tree.add("web")?;
    let root = format!("--root={}", tree.root().display());
    let arguments = [
        &root,
        "--eviction-hard=memory.available<1Mi",
        "--output=json",
    ];
    let output = explain_with(nobody.eviction(), &arguments).output()?;
    let report = json(&output)?;
    if report["rankings"][0]["victim"] != "web" || report["signals"][0]["met"] != false {
        bail!("{report}");
    }
    Ok(())
}

fn refuses() -> Result<()> {
    let program = suite::programs()?.join("eviction");
    let table: [(&[&str], &str); 3] = [
        (
            &["--eviction-hard=memory.available<1Mi"],
            "--root is missing",
        ),
        (&["--root=/sys/fs/cgroup"], "--eviction-hard is missing"),
        (
            &[
                "--root=/no/such/cgroup",
                "--eviction-hard=memory.available<1Mi",
            ],
            "/no/such/cgroup",
        ),
    ];
    for (arguments, said) in table {
        let output = explain(&program, arguments).output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(2) || !error.contains(said) {
            bail!("{arguments:?} ended with {:?}: {error}", output.status);
        }
    }
    Ok(())
}
