//! Recordings of real runs, and what is left of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use eviction_tests::scenario::{Events, Evictor, MemoryStory, Programs, TestTree};
use eviction_tests::suite::{self, Case, Outcome};
use serde_json::Value;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("a recorded eviction replays byte for byte", replay),
        Case::new(
            "what is left of a recording is replayed, the damage named",
            damage,
        ),
        Case::new(
            "what is no recording is refused with exit code 2",
            wrong_input,
        ),
    ]
}

fn programs() -> Result<Programs> {
    Ok(Programs::in_folder(&suite::programs()?))
}

fn eviction(arguments: &[&str]) -> Result<Output> {
    Command::new(programs()?.eviction)
        .args(arguments)
        .output()
        .context("eviction does not start")
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

/// Standard output of a replay that ends well.
fn replayed(arguments: &[&str]) -> Result<String> {
    let output = eviction(&[&["replay"], arguments].concat())?;
    let (stdout, stderr) = texts(&output);
    ensure!(
        output.status.code() == Some(0),
        "{arguments:?} ended with {:?}: {stderr}",
        output.status.code()
    );
    Ok(stdout)
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The lines about decisions alone.
fn decisions(json_lines: &str) -> Vec<&str> {
    json_lines
        .lines()
        .filter(|line| line.starts_with("{\"record\":\"decision\""))
        .collect()
}

fn replay() -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let directory = folder.path().join("recording");
    let stripped = folder.path().join("stripped");
    let (recording, inputs) = (text(&directory)?, text(&stripped)?);
    let story = MemoryStory {
        rate: 50,
        extra_args: vec![format!("--record={recording}")],
        ..MemoryStory::native(Events::Timer)
    };
    let outcome = story.run(&programs()?)?;
    ensure!(outcome.victim == "hog", "{outcome:?}");

    let lived = replayed(&[recording, "--recorded", "--output=json"])?;
    replayed(&[recording, "--strip", inputs])?;
    let again = replayed(&[inputs, "--output=json"])?;
    ensure!(
        decisions(&lived) == decisions(&again),
        "recorded\n{lived}\nreplayed\n{again}"
    );
    ensure!(evicts(&decisions(&again), "hog")?, "{again}");
    ensure!(
        lived.contains("\"note\":\"killed\""),
        "no outcome in {lived}"
    );
    ensure!(!again.contains("\"note\""), "not stripped: {again}");
    let told = replayed(&[recording])?;
    ensure!(
        told.contains("the same as recorded, byte for byte"),
        "{told}"
    );

    // Above what the quiet workloads leave: the first look evicts, and calm has no request at all.
    let earlier = "--eviction-hard=allocatableMemory.available<400Mi";
    let other = replayed(&[recording, earlier])?;
    for said in ["evict calm", "first difference at", "open loop"] {
        ensure!(other.contains(said), "no {said:?} in {other}");
    }
    let never = "--eviction-hard=allocatableMemory.available<1Ki";
    let other = replayed(&[recording, never])?;
    ensure!(
        other.contains("other configuration: 0 evictions"),
        "{other}"
    );
    let size: u64 = files(&directory)?
        .iter()
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    Ok(Outcome::Noted(format!(
        "{} decisions in {size} bytes",
        decisions(&again).len()
    )))
}

fn evicts(lines: &[&str], name: &str) -> Result<bool> {
    for line in lines {
        let line: Value = serde_json::from_str(line)?;
        let actions = line["actions"].as_array().into_iter().flatten();
        if actions
            .into_iter()
            .any(|a| a["Evict"]["pod"]["name"] == name)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

fn files(directory: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let bytes = fs::read(&path)?;
        found.push((path, bytes));
    }
    Ok(found)
}

/// Some seconds of a quiet run, ended as a service manager would.
fn quiet_recording(directory: &Path) -> Result<Vec<u8>> {
    let tree = TestTree::create("recorded", 64 << 20)?;
    let arguments = [
        "--platform=host".to_owned(),
        format!("--root={}", tree.root().display()),
        "--eviction-hard=allocatableMemory.available<1Mi".to_owned(),
        "--monitoring-interval=200ms".to_owned(),
        "--events=timer".to_owned(),
        "--dry-run".to_owned(),
        format!("--record={}", directory.display()),
    ];
    let mut evictor = Evictor::start(&programs()?, &arguments)?;
    evictor.wait_for("started", Duration::from_secs(30))?;
    std::thread::sleep(Duration::from_secs(2));
    let (code, stderr) = evictor.terminate(Duration::from_secs(10))?;
    ensure!(code == Some(0), "it ended with {code:?}: {stderr}");
    match files(directory)?.as_slice() {
        [(_, bytes)] => Ok(bytes.clone()),
        other => bail!("one file was expected, there are {}", other.len()),
    }
}

/// Where the record after the head starts: behind the file's prefix, and the head with its own header.
fn second_record(bytes: &[u8]) -> Result<usize> {
    let length = bytes.get(10..14).context("a recording is longer")?;
    let length = u32::from_le_bytes(length.try_into()?);
    Ok(10 + 12 + usize::try_from(length)?)
}

fn damage() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bytes = quiet_recording(&folder.path().join("recording"))?;
    let file = folder.path().join("left.rec");
    let path = text(&file)?;
    let expect = |bytes: &[u8], code: i32, said: &[&str]| -> Result<()> {
        fs::write(&file, bytes)?;
        let output = eviction(&["replay", path])?;
        let (_, stderr) = texts(&output);
        let misses = said.iter().find(|said| !stderr.contains(*said));
        if output.status.code() != Some(code) || misses.is_some() {
            bail!(
                "ended with {:?}, expected {code} and {said:?} in\n{stderr}",
                output.status.code()
            );
        }
        Ok(())
    };
    expect(&bytes, 0, &[])?;
    let torn = &bytes[..bytes.len() - 5];
    let at_byte = format!("warning: {path}: at byte ");
    expect(torn, 0, &[&at_byte, "the file ends inside a record"])?;
    let mut flipped = bytes.clone();
    flipped[second_record(&bytes)? + 20] ^= 0x10;
    expect(&flipped, 1, &[&at_byte])?;
    let mut newer = bytes.clone();
    newer[8] = 99;
    expect(&newer, 2, &[path, "version 99"])?;
    expect(&bytes[..20], 2, &[path, "nothing of it can be read"])?;
    expect(b"", 2, &[path, "not a recording"])
}

fn wrong_input() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let empty = text(folder.path())?.to_owned();
    let tree = TestTree::create("unrecorded", 64 << 20)?;
    let root = format!("--root={}", tree.root().display());
    let cases: [(&[&str], &str); 8] = [
        (&["replay"], "<FILE|DIR>"),
        (&["replay", &empty], &empty),
        (&["replay", "/no/such/recording"], "/no/such/recording"),
        (
            &["replay", "/proc/self/status"],
            "/proc/self/status: not a recording",
        ),
        (&["replay", &empty, "--speed=0"], "--speed"),
        (
            &["replay", &empty, "--monitoring-interval=1s"],
            "--monitoring-interval",
        ),
        (&["replay", &empty, "--eviction-hard=x"], "--eviction-hard"),
        (
            &[
                "run",
                "--platform=host",
                &root,
                "--eviction-hard=memory.available<1Mi",
                "--dry-run",
                "--record=/proc/none",
            ],
            "--record: /proc/none",
        ),
    ];
    for (arguments, said) in cases {
        let output = eviction(arguments)?;
        let (_, stderr) = texts(&output);
        ensure!(
            output.status.code() == Some(2) && stderr.contains(said),
            "{arguments:?} ended with {:?}: {stderr}",
            output.status.code()
        );
        ensure!(!stderr.contains("panicked"), "{arguments:?}: {stderr}");
    }
    Ok(())
}
