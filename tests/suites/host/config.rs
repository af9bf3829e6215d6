//! Configuration files, as their users meet them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use eviction_tests::scenario::{Evictor, Programs, TestTree, Workload};
use eviction_tests::suite::{self, Case, Outcome};
use serde_json::Value;
use tempfile::TempDir;

const OWN: &str = "apiVersion: eviction.dev/v1alpha1\nkind: EvictionConfiguration\n";
const KUBELET: &str =
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nmaxPods: 110\n";

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "config check passes a kubelet's file and warns of the defaults it drops (case 42)",
            check_warns,
        ),
        Case::new(
            "config check names file, line and key of each mistake, exit code 2",
            check_refuses,
        ),
        Case::new(
            "config effective tells where every value comes from",
            effective,
        ),
        Case::new(
            "config import writes a file of our own that says the same",
            import,
        ),
        Case::new(
            "run takes its thresholds from our own file, and flags win",
            run_with_a_file,
        ),
        Case::new(
            "an addition that is turned on holds evictions back and says why",
            run_held_back,
        ),
        Case::new(
            "a guard that cannot see on this machine is refused with exit code 2",
            blind_guard,
        ),
        Case::new(
            "run with a wrong file is refused and nothing starts",
            run_refuses,
        ),
    ]
}

/// A folder with files in it.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Result<Self> {
        let folder = Self(tempfile::tempdir()?);
        for (name, content) in files {
            let path = folder.path(name);
            std::fs::create_dir_all(path.parent().context("no parent")?)?;
            std::fs::write(path, content)?;
        }
        Ok(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `eviction` in the folder, so that names are short.
    fn eviction(&self, arguments: &[&str]) -> Result<(Option<i32>, String, String)> {
        let output: Output = Command::new(suite::programs()?.join("eviction"))
            .current_dir(self.0.path())
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .context("eviction does not start")?;
        Ok((
            output.status.code(),
            String::from_utf8(output.stdout)?,
            String::from_utf8(output.stderr)?,
        ))
    }
}

fn check_warns() -> Result<()> {
    let body = format!("{KUBELET}evictionHard:\n  memory.available: 1Gi\n");
    let files = Files::new(&[("k.yaml", &body)])?;
    let (code, said, warned) = files.eviction(&["config", "check", "k.yaml"])?;
    if code != Some(0) || !said.starts_with("k.yaml: good (KubeletConfiguration, ") {
        bail!("{code:?}: {said}{warned}");
    }
    let dropped = "warning: k.yaml:4: evictionHard: sets only a part, so these defaults are off: nodefs.available<10%, ";
    if !warned.starts_with(dropped) {
        bail!("{warned}");
    }
    Ok(())
}

fn check_refuses() -> Result<()> {
    let table = [
        (
            format!("{OWN}evictionHrad: {{}}\n"),
            "error: f.yaml:3: evictionHrad: unknown key; did you mean evictionHard?",
        ),
        (
            format!("{OWN}evictionHard:\n  memory.available: 1Gi\n  memory.available: 2Gi\n"),
            "error: f.yaml:5: memory.available: key \"memory.available\" already set in map",
        ),
        (
            format!("{KUBELET}evictionHard:\n  nodefs.inodesFree: 5\n"),
            "error: f.yaml:5: evictionHard: nodefs.inodesFree: expected a text",
        ),
        (
            format!("{KUBELET}evictionSoft:\n  memory.available: 5%\n"),
            "error: f.yaml:5: evictionSoft: memory.available: grace period must be specified for the soft eviction threshold memory.available",
        ),
        (
            "a: [".to_owned(),
            "error: f.yaml:1: this is no valid YAML or JSON",
        ),
        (String::new(), "error: f.yaml:1: kind is missing"),
        ("\u{0}\u{1}".to_owned(), "error: f.yaml:1: "),
    ];
    for (body, expected) in table {
        let files = Files::new(&[("f.yaml", &body)])?;
        let (code, said, error) = files.eviction(&["config", "check", "f.yaml"])?;
        if code != Some(2) || !said.is_empty() || !error.starts_with(expected) {
            bail!("{body:?} ended with {code:?}, expected {expected:?} in\n{said}{error}");
        }
    }
    let files = Files::new(&[])?;
    let (code, _, error) = files.eviction(&["config", "check", "none.yaml"])?;
    if code != Some(2) || !error.contains("none.yaml") {
        bail!("{code:?}: {error}");
    }
    Ok(())
}

fn effective() -> Result<()> {
    let main = format!(
        "{OWN}evictionHard:\n  memory.available: 1Gi\nmergeDefaultEvictionSettings: true\n"
    );
    let over = format!("{OWN}evictionHard: {{nodefs.available: 20%}}\n");
    let files = Files::new(&[("f.yaml", &main), ("f.yaml.d/10-disk.yaml", &over)])?;
    let arguments = [
        "config",
        "effective",
        "--config=f.yaml",
        "--eviction-max-pod-grace-period=7",
    ];
    let (code, table, _) = files.eviction(&arguments)?;
    let has = |words: [&str; 3]| table.lines().any(|line| line.split_whitespace().eq(words));
    for words in [
        ["evictionHard.memory.available", "1Gi", "f.yaml:4"],
        [
            "evictionHard.nodefs.available",
            "20%",
            "f.yaml.d/10-disk.yaml:3",
        ],
        [
            "evictionMaxPodGracePeriod",
            "7",
            "--eviction-max-pod-grace-period",
        ],
        ["evictionPressureTransitionPeriod", "5m0s", "default"],
    ] {
        if code != Some(0) || !has(words) {
            bail!("{code:?}, no line {words:?} in\n{table}");
        }
    }
    let program = suite::programs()?.join("eviction");
    let closed = Command::new("sh")
        .args(["-c", "\"$0\" config effective 2>err | true; cat err"])
        .arg(program)
        .current_dir(files.0.path())
        .output()?;
    if !closed.stdout.is_empty() {
        bail!(
            "nobody reads it, and it says {}",
            String::from_utf8_lossy(&closed.stdout)
        );
    }
    let (_, json, _) = files.eviction(&[arguments.as_slice(), &["--output=json"]].concat())?;
    let json: Value = serde_json::from_str(&json).context("no JSON")?;
    let merged = serde_json::json!({
        "key": "evictionHard.imagefs.available", "value": "15%", "source": "merged default",
    });
    let settings = json["settings"].as_array().context("no settings")?;
    if !settings.contains(&merged) {
        bail!("{json}");
    }
    Ok(())
}

fn import() -> Result<()> {
    let configz = "{\"kubeletconfig\":{\"evictionHard\":{\"memory.available\":\"100Mi\"},\"evictionMaxPodGracePeriod\":30,\"enforceNodeAllocatable\":[\"pods\"]}}";
    let files = Files::new(&[("configz.json", configz)])?;
    let arguments = ["config", "import", "--from=configz.json", "-o", "ours.yaml"];
    let (code, _, error) = files.eviction(&arguments)?;
    if code != Some(0) {
        bail!("{code:?}: {error}");
    }
    let written = std::fs::read_to_string(files.path("ours.yaml"))?;
    let expected =
        format!("{OWN}evictionHard:\n  memory.available: 100Mi\nevictionMaxPodGracePeriod: 30\n");
    if written != expected {
        bail!("{written}");
    }
    let (code, _, error) = files.eviction(&["config", "check", "ours.yaml"])?;
    if code != Some(0) {
        bail!("what was written is refused: {error}");
    }
    let (code, _, error) = files.eviction(&arguments)?;
    if code != Some(2) || !error.contains("ours.yaml") {
        bail!("an existing file: {code:?}: {error}");
    }
    Ok(())
}

fn run_arguments(tree: &TestTree, config: &Path) -> Vec<String> {
    vec![
        "--platform=host".to_owned(),
        format!("--root={}", tree.root().display()),
        format!("--config={}", config.display()),
        "--events=timer".to_owned(),
    ]
}

fn run_with_a_file() -> Result<()> {
    let body = format!(
        "{OWN}evictionHard:\n  allocatableMemory.available: 8Mi\nmonitoringInterval: 100ms\n"
    );
    let files = Files::new(&[("f.yaml", &body)])?;
    let tree = TestTree::create("config", 64 << 20)?;
    let programs = Programs::in_folder(&suite::programs()?);
    let quiet = run_arguments(&tree, &files.path("f.yaml"));
    let mut evictor = Evictor::start(&programs, &quiet)?;
    evictor.wait_for("started", Duration::from_secs(30))?;
    // Several cycles of the interval that the file sets, and nothing is met.
    std::thread::sleep(Duration::from_millis(500));
    evictor.drain();
    if evictor.of_kind("no-candidate").count() > 0 {
        bail!("the file's threshold of 8Mi cannot be met in an empty group of 64Mi");
    }
    let (code, error) = evictor.terminate(Duration::from_secs(5))?;
    if code != Some(0) {
        bail!("{code:?}: {error}");
    }
    // Always met, so the flag shows in the records.
    let over = "--eviction-hard=allocatableMemory.available<1Gi".to_owned();
    let loud: Vec<String> = quiet.into_iter().chain([over]).collect();
    let mut evictor = Evictor::start(&programs, &loud)?;
    evictor.wait_for("no-candidate", Duration::from_secs(30))?;
    Ok(())
}

fn run_refuses() -> Result<()> {
    let body = format!("{OWN}evictionHard:\n  imagefs.available: 5%\n");
    let files = Files::new(&[("f.yaml", &body)])?;
    let root = "--root=/sys/fs/cgroup";
    let arguments = ["run", "--platform=host", root, "--config=f.yaml"];
    let (code, said, error) = files.eviction(&arguments)?;
    let expected =
        "error: --imagefs is missing: f.yaml:4: evictionHard: imagefs.available needs a path";
    if code != Some(2) || !said.is_empty() || !error.contains(expected) {
        bail!("{code:?}: {said}{error}");
    }
    Ok(())
}

fn run_held_back() -> Result<()> {
    // Always met; without the cap the one workload would go.
    let body = format!(
        "{OWN}evictionHard:\n  allocatableMemory.available: 1Gi\nmaxEvictionsPerHour: 0\nmonitoringInterval: 100ms\n"
    );
    let files = Files::new(&[("f.yaml", &body)])?;
    let tree = TestTree::create("held", 64 << 20)?;
    let programs = Programs::in_folder(&suite::programs()?);
    let hold = ["hold", "1048576"];
    let mut calm = Workload::start(&programs, &tree, files.0.path(), "calm", &hold, 0)?;
    calm.reaches(1 << 20, Duration::from_secs(30))?;
    let arguments = run_arguments(&tree, &files.path("f.yaml"));
    let mut evictor = Evictor::start(&programs, &arguments)?;
    let held = evictor.wait_for("held-back", Duration::from_secs(30))?;
    if held.text("reason") != "hourly-cap" || !held.text("message").contains("0 evictions an hour")
    {
        bail!("{held:?}");
    }
    if evictor.of_kind("decision").count() > 0 || !calm.is_alive() {
        bail!("somebody went all the same: {:?}", evictor.seen);
    }
    Ok(())
}

fn blind_guard() -> Result<Outcome> {
    let body = format!("{OWN}evictionHard:\n  memory.available: 1Mi\nmaximumDyingCgroups: 1000\n");
    let files = Files::new(&[("f.yaml", &body)])?;
    let tree = TestTree::create("guard", 64 << 20)?;
    if tree.is_v2() {
        return Ok(Outcome::Skipped("cgroup v2 tells it".to_owned()));
    }
    let root = format!("--root={}", tree.root().display());
    let (code, _, error) = files.eviction(&["run", "--platform=host", &root, "--config=f.yaml"])?;
    if code != Some(2) || !error.contains("maximumDyingCgroups: cgroup v1 does not tell") {
        bail!("{code:?}: {error}");
    }
    Ok(Outcome::Passed)
}
