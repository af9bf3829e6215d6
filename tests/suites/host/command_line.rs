//! Wrong input, as a new user gives it: the message names the thing and the fix, the code is right,
//! and nothing starts.

use std::process::{Command, Output};

use crate::nobody::Nobody;
use anyhow::{Context, Result, bail};
use eviction_tests::scenario::{Evictor, Programs, TestTree};
use eviction_tests::suite::{self, Case};
use std::time::Duration;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "wrong input is refused with exit code 2, the flag and the fix",
            wrong_input,
        ),
        Case::new(
            "a cgroup without a limit is refused for allocatableMemory",
            no_limit,
        ),
        Case::new(
            "without privileges it says which one is missing, exit code 4",
            no_privilege,
        ),
        Case::new("help and version are no errors", help),
        Case::new("SIGTERM ends it at once with exit code 0", sigterm),
        Case::new("a closed standard output does not end it", closed_output),
    ]
}

fn eviction(arguments: &[&str]) -> Result<Output> {
    let program = suite::programs()?.join("eviction");
    Command::new(program)
        .args(arguments)
        .output()
        .context("eviction does not start")
}

fn expect(arguments: &[&str], code: i32, said: &str) -> Result<()> {
    let output = eviction(arguments)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(code) || !stderr.contains(said) {
        bail!(
            "{arguments:?} ended with {:?}, expected {code} and {said:?} in\n{stderr}",
            output.status.code()
        );
    }
    if stderr.contains("panicked") {
        bail!("{arguments:?} panicked:\n{stderr}");
    }
    Ok(())
}

fn wrong_input() -> Result<()> {
    let root = format!("--root={}", TestTree::hierarchy());
    let root = root.as_str();
    let memory = "--eviction-hard=memory.available<1Mi";
    let cases: &[(&[&str], &str)] = &[
        (&["rum"], "unrecognized subcommand 'rum'"),
        (&["run"], "--platform"),
        (
            &["run", "--platform=host", "--evict-hard=x"],
            "unexpected argument '--evict-hard'",
        ),
        (&["run", "--platform=host", memory], "--root is missing"),
        (
            &["run", "--platform=host", root],
            "--eviction-hard is missing",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                "--eviction-hard=memory.available<64Qi",
            ],
            "memory.available",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                "--eviction-hard=memory.free<1Mi",
            ],
            "unsupported eviction signal memory.free",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                "--eviction-hard=memory.available=1Mi",
            ],
            "malformed pair",
        ),
        (
            &["run", "--platform=host", "--root=/no/such/cgroup", memory],
            "/no/such/cgroup",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                "--eviction-hard=nodefs.inodesFree<5%",
            ],
            "--nodefs is missing",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                "--eviction-hard=nodefs.inodesFree<5%",
                "--nodefs=/none",
            ],
            "/none",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                "--eviction-hard=nodefs.inodesFree<5%",
                "--nodefs=/proc",
            ],
            "makes inodes as needed",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                memory,
                "--workload=web:prio=1",
            ],
            "unknown key prio=1",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                memory,
                "--monitoring-interval=10",
            ],
            "missing unit",
        ),
        (
            &["run", "--platform=host", root, memory, "--events=sometimes"],
            "--events",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                memory,
                "--rungs=fentry/nothing",
            ],
            "no hook has this name",
        ),
        (&["trace", "--root=/no/such/cgroup"], "/no/such/cgroup"),
        (&["trace", "--memory-step=0"], "must be more than 0"),
        (&["trace", "--nodefs=/none"], "--nodefs"),
        (&["doctor", "--output=yaml"], "--output"),
        (
            &["doctor", "--kubelet-config=k.yaml"],
            "--kubelet-config has no effect without --platform kubernetes",
        ),
        (
            &["doctor", "--eviction-hard=memory.available<1Gi"],
            "has no effect without --platform kubernetes",
        ),
        (
            &["config", "kubelet", "--kubelet-config=/no/such/file"],
            "--kubelet-config: /no/such/file: ",
        ),
        (
            &[
                "run",
                "--platform=host",
                root,
                memory,
                "--kubelet-config=k.yaml",
            ],
            "--kubelet-config has no effect with --platform host",
        ),
        (
            &["run", "--platform=host", root, memory, "--hard-policy=api"],
            "--hard-policy has no effect with --platform host",
        ),
        (&["--log-level=loud=x=y", "doctor"], "--log-level"),
    ];
    for (arguments, said) in cases {
        expect(arguments, 2, said)?;
    }
    Ok(())
}

fn no_limit() -> Result<()> {
    let root = format!("--root={}", TestTree::hierarchy());
    let hard = "--eviction-hard=allocatableMemory.available<64Mi";
    let output = eviction(&["run", "--platform=host", &root, hard])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.code() != Some(2) || !stderr.contains("--root") {
        bail!("{:?}: {stderr}", output.status);
    }
    Ok(())
}

fn no_privilege() -> Result<()> {
    let nobody = Nobody::new()?;
    let run = |arguments: &[&str]| nobody.eviction().args(arguments).output();
    let killer = run(&[
        "run",
        "--platform=host",
        &format!("--root={}", TestTree::hierarchy()),
        "--eviction-hard=memory.available<1Mi",
    ])?;
    let said = String::from_utf8_lossy(&killer.stderr).into_owned();
    if killer.status.code() != Some(4) || !said.contains("CAP_KILL") {
        bail!("run ended with {:?}: {said}", killer.status);
    }
    let doctor = run(&["doctor"])?;
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    if doctor.status.code() != Some(4) || !said.contains("grant CAP_BPF and CAP_PERFMON") {
        bail!("doctor ended with {:?}: {said}", doctor.status);
    }
    Ok(())
}

fn help() -> Result<()> {
    for arguments in [["--help"], ["--version"]] {
        let output = eviction(&arguments)?;
        if !output.status.success() || output.stdout.is_empty() {
            bail!("{arguments:?}: {output:?}");
        }
    }
    let help = eviction(&["run", "--help"])?;
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    for flag in [
        "--root",
        "--eviction-hard",
        "--workload",
        "--nodefs",
        "--dry-run",
    ] {
        if !text.contains(flag) {
            bail!("`eviction run --help` does not tell of {flag}");
        }
    }
    Ok(())
}

fn arguments(tree: &TestTree) -> Vec<String> {
    [
        "--platform=host",
        "--eviction-hard=allocatableMemory.available<8Mi",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("--root={}", tree.root().display())])
    .collect()
}

fn sigterm() -> Result<()> {
    let tree = TestTree::create("sigterm", 64 << 20)?;
    let mut evictor = Evictor::start(&Programs::in_folder(&suite::programs()?), &arguments(&tree))?;
    evictor.wait_for("started", Duration::from_secs(30))?;
    let (code, stderr) = evictor.terminate(Duration::from_secs(5))?;
    if code != Some(0) {
        bail!("it ended with {code:?}: {stderr}");
    }
    Ok(())
}

fn closed_output() -> Result<()> {
    let tree = TestTree::create("closed", 64 << 20)?;
    let program = suite::programs()?.join("eviction");
    let mut child = Command::new(program)
        .arg("run")
        .args(arguments(&tree))
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()?;
    drop(child.stdout.take());
    std::thread::sleep(Duration::from_secs(2));
    let ended = child.try_wait()?;
    child.kill()?;
    child.wait()?;
    match ended {
        None => Ok(()),
        Some(status) => bail!("it ended with {status} when nobody read its records"),
    }
}
