//! `eviction run --metrics`: what a scraper and a probe get while a real victim is killed, and what is refused.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use eviction_tests::exposition::Exposition;
use eviction_tests::http::get;
use eviction_tests::scenario::{Evictor, Programs, TestTree, Workload, wait_until};
use eviction_tests::suite::{self, Case, Outcome};

const MIB: u64 = 1 << 20;
const LONG: Duration = Duration::from_secs(60);
const KILLED: &str =
    r#"eviction_evictions_total{signal="allocatableMemory.available",outcome="killed"}"#;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "without eBPF an eviction is to be seen in the metrics, and the probes are content",
            an_eviction_is_counted,
        ),
        Case::new(
            "the metrics show which rung is used and why the higher ones are not",
            the_ladder_is_told,
        ),
        Case::new(
            "an address that cannot be served is refused with exit code 2 before anything starts",
            wrong_addresses,
        ),
        Case::new(
            "clients that hold their connections take nothing from the evictor",
            crowded,
        ),
    ]
}

fn scrape(address: SocketAddr) -> Result<Exposition> {
    let answer = get(address, "/metrics")?;
    ensure!(answer.status == 200, "{answer:?}");
    ensure!(
        answer.media_type == "application/openmetrics-text; version=1.0.0; charset=utf-8",
        "the media type is {:?}",
        answer.media_type
    );
    Exposition::read(&answer.body).with_context(|| answer.body.clone())
}

fn start(tree: &TestTree, more: &[&str]) -> Result<(Evictor, SocketAddr)> {
    let mut args = vec![
        "--platform=host".to_owned(),
        format!("--root={}", tree.root().display()),
        "--eviction-hard=allocatableMemory.available<32Mi".to_owned(),
        "--metrics=127.0.0.1:0".to_owned(),
    ];
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    let mut evictor = Evictor::start(&Programs::in_folder(&suite::programs()?), &args)?;
    let started = evictor.wait_for("started", LONG)?;
    let address = started.text("metrics");
    let address = address
        .parse()
        .with_context(|| format!("the record of the start names {address:?}"))?;
    Ok((evictor, address))
}

fn an_eviction_is_counted() -> Result<Outcome> {
    let folder = tempfile::tempdir()?;
    let tree = TestTree::create("metrics", 128 * MIB)?;
    let (mut evictor, address) = start(&tree, &["--events=timer"])?;

    let ready = wait_until(LONG, || {
        get(address, "/readyz").ok().filter(|a| a.status == 200)
    });
    let ready = ready.context("/readyz did not become 200")?;
    let fallback = "memory: no events, looking by the timer: the declared fallback\n";
    ensure!(
        ready.body.starts_with(fallback) && ready.body.contains("--events timer"),
        "{ready:?}"
    );
    let live = get(address, "/livez")?;
    ensure!(live.status == 200, "{live:?}");
    ensure!(get(address, "/healthy")?.status == 404, "no such path");

    let before = scrape(address)?;
    ensure!(
        before.value(KILLED) == Some(0.0),
        "it is not there from the start"
    );
    let left = r#"eviction_left{signal="allocatableMemory.available"}"#;
    ensure!(
        before
            .value(left)
            .is_some_and(|left| left > 64.0 * MIB as f64),
        "{left} is {:?}",
        before.value(left)
    );
    ensure!(
        before.value(r#"eviction_source{family="memory",source="timer"}"#) == Some(1.0),
        "the source is not told"
    );
    let step = r#"eviction_ladder{family="memory",rung="ebpf",used="false",why_not="kernel events are switched off (--events timer)"}"#;
    ensure!(before.value(step) == Some(0.0), "{step} is not there");

    let programs = Programs::in_folder(&suite::programs()?);
    let args = ["hog", &(512 * MIB).to_string(), &(40 * MIB).to_string()];
    let mut hog = Workload::start(&programs, &tree, folder.path(), "hog", &args, 0)?;
    let ended = wait_until(LONG, || (!hog.is_alive()).then_some(()));
    ended.context("the hog was not killed")?;
    evictor.wait_for("gone", LONG)?;
    ensure!(tree.oom_kills()? == 0, "the OOM killer was first");

    let after = scrape(address)?;
    let id = evictor.wait_for("kill", LONG)?.text("id").to_owned();
    for (series, wanted) in [
        (KILLED, 1.0),
        (r#"eviction_kill_seconds_count{since="look"}"#, 1.0),
        ("eviction_decision_seconds_count", 1.0),
        ("eviction_sample_age_seconds_count", 1.0),
        (r#"eviction_condition{condition="MemoryPressure"}"#, 1.0),
        ("eviction_victims_leaving", 0.0),
        ("eviction_records_dropped_total", 0.0),
    ] {
        let found = after.value(series);
        ensure!(found == Some(wanted), "{series} is {found:?}, not {wanted}");
    }
    let text = get(address, "/metrics")?.body;
    ensure!(
        text.contains(&format!("# {{record_id=\"{id}\"}}")),
        "no exemplar names the record {id}"
    );
    let looks = |read: &Exposition| read.value("eviction_looks_total").unwrap_or(0.0);
    ensure!(looks(&after) > looks(&before), "no look was counted");

    let (code, stderr) = evictor.terminate(Duration::from_secs(5))?;
    ensure!(code == Some(0), "it ended with {code:?}: {stderr}");
    ensure!(get(address, "/livez").is_err(), "somebody still answers");
    let series = after.series("eviction_").count();
    Ok(Outcome::Noted(format!("{series} series")))
}

fn the_ladder_is_told() -> Result<Outcome> {
    let tree = TestTree::create("ladder", 128 * MIB)?;
    let (mut evictor, address) = start(&tree, &[])?;
    let started = evictor.wait_for("started", LONG)?;
    let source = started.text("memory").to_owned();
    let ready = wait_until(LONG, || {
        get(address, "/readyz").ok().filter(|a| a.status == 200)
    });
    let ready = ready.context("/readyz did not become 200")?;
    ensure!(
        ready
            .body
            .contains(&format!("memory: events from {source}")),
        "{ready:?}"
    );
    let read = scrape(address)?;
    let ladder: Vec<_> = read.series(r#"eviction_ladder{family="memory""#).collect();
    let used = format!(r#"rung="{source}",used="true",why_not="""#);
    ensure!(
        ladder
            .iter()
            .any(|(series, places)| series.contains(&used) && *places >= 1.0),
        "{used} is not in {ladder:?}"
    );
    let explained = |(series, places): &(&str, f64)| {
        (*places == 0.0) == series.contains("used=\"false\"")
            && (*places == 0.0) != series.contains("why_not=\"\"")
    };
    ensure!(
        ladder.len() > 1 && ladder.iter().all(explained),
        "{ladder:?}"
    );
    let events =
        format!(r#"eviction_events_total{{rung="{source}",signal="allocatableMemory.available"}}"#);
    ensure!(read.value(&events).is_some(), "{events} is not there");
    Ok(Outcome::Noted(format!("{source}, {} steps", ladder.len())))
}

fn wrong_addresses() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let taken = taken.local_addr()?.to_string();
    let tree = TestTree::create("refused", 64 * MIB)?;
    let root = format!("--root={}", tree.root().display());
    let state = tempfile::tempdir()?;
    let state = state.path().join("state");
    for (address, said) in [
        (
            "nonsense",
            "give an IP address and a port, as in 127.0.0.1:9464",
        ),
        (
            "127.0.0.1",
            "give an IP address and a port, as in 127.0.0.1:9464",
        ),
        (
            "localhost:9464",
            "give an IP address and a port, as in 127.0.0.1:9464",
        ),
        (
            "127.0.0.1:70000",
            "give an IP address and a port, as in 127.0.0.1:9464",
        ),
        (taken.as_str(), "choose another port"),
        ("192.0.2.1:9464", "this machine has no such address"),
    ] {
        let output = std::process::Command::new(suite::programs()?.join("eviction"))
            .args(["run", "--platform=host", &root, "--metrics", address])
            .args(["--eviction-hard=memory.available<1Mi", "--state"])
            .arg(&state)
            .output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        let is_good = stderr.contains(said) && stderr.contains("--metrics");
        if code != Some(2) || !is_good || state.exists() {
            bail!("{address}: it ended with {code:?}, expected 2 and {said:?} in\n{stderr}");
        }
    }
    Ok(())
}

/// More clients than are let in, none of which ever asks or goes.
fn crowded() -> Result<()> {
    let tree = TestTree::create("crowded", 64 * MIB)?;
    let (mut evictor, address) = start(&tree, &["--events=timer"])?;
    let clients: std::io::Result<Vec<_>> = (0..100).map(|_| TcpStream::connect(address)).collect();
    let clients = clients?;
    std::thread::sleep(Duration::from_millis(500));
    let open = std::fs::read_dir(format!("/proc/{}/fd", evictor.pid()))?.count();
    ensure!(open < 80, "{open} file descriptors are open");
    // With some of them gone there is room again.
    drop(clients);
    let live = wait_until(LONG, || get(address, "/livez").ok());
    ensure!(live.is_some_and(|live| live.status == 200), "/livez");
    let (code, stderr) = evictor.terminate(Duration::from_secs(5))?;
    ensure!(code == Some(0), "it ended with {code:?}: {stderr}");
    Ok(())
}
