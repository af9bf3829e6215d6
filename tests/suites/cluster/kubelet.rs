//! What the kubelet has decided is found out from its process and its file, and needs no flag; whether its lines keep out of the way
//! of ours is told.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::http::get;
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::api::{record, text};
use crate::halted::Halted;
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "where pods are is found out from the kubelet, with its origin",
            || node::with(origins),
        ),
        Case::new(
            "without a flag for any place a hog goes, and a disk is watched",
            || node::with(no_places_given),
        ),
        Case::new("a flag that says otherwise wins, and that is told", || {
            node::with(flags_win)
        }),
        Case::new(
            "doctor tells whether the kubelet's line keeps its distance",
            || node::with(pairing),
        ),
        Case::new(
            "with the right to get it the kubelet's own word counts, else its files",
            || node::with(own_word),
        ),
        Case::new(
            "a kubelet that is started again with other settings is noticed",
            || node::with(started_again),
        ),
    ]
}

/// Ends with success; standard output and standard error.
pub(crate) fn eviction(node: &Node, arguments: &[&str]) -> Result<(String, String)> {
    let ended = Command::new(&node.programs.eviction)
        .args(arguments)
        .env_remove("NODE_NAME")
        .output()?;
    let (out, err) = (
        String::from_utf8(ended.stdout)?,
        String::from_utf8(ended.stderr)?,
    );
    ensure!(
        ended.status.success(),
        "{arguments:?}: {}: {out}{err}",
        ended.status
    );
    Ok((out, err))
}

fn origins(node: &Node) -> Result<()> {
    let asked = ["config", "kubelet", "--node-name", NODE, "--output=json"];
    let told: Value = serde_json::from_str(&eviction(node, &asked)?.0)?;
    let rows = told["settings"].as_array().context("no settings")?;
    let cluster = &node.cluster;
    let file = cluster.folder.join("kubelet.yaml").display().to_string();
    let group = format!("/{}", cluster.cgroup());
    let (root, logs) = (cluster.kubelet_root(), cluster.pod_logs());
    let (root, logs) = (root.display().to_string(), logs.display().to_string());
    let pods = cluster.pods_group()?.display().to_string();
    for (key, value, source) in [
        ("--root-dir", &*root, "the kubelet's --root-dir"),
        ("cgroupRoot", &group, &file),
        ("cgroupDriver", "cgroupfs", &file),
        ("podLogsDir", &logs, &file),
        ("evictionHard.memory.available", "50Mi", &file),
        ("imageMinimumGCAge", "2m0s", "default"),
        ("used as --root", &pods, "cgroupRoot and cgroupDriver"),
        ("used as --nodefs", &root, "--root-dir"),
        ("used as --pod-logs", &logs, "podLogsDir"),
    ] {
        let row = rows.iter().find(|row| row["key"] == key);
        let row = row.with_context(|| format!("no {key}: {told}"))?;
        ensure!(
            row["value"] == value && text(row, "/source").starts_with(source),
            "{row}, not {value} by {source}"
        );
    }
    let (table, _) = eviction(node, &["config", "kubelet"])?;
    // Long values are on more than one line.
    let is_whole = |key: &str, value: &str| {
        let mut lines = table.lines();
        lines.any(|line| line.starts_with(key) && line.contains(value))
    };
    ensure!(
        is_whole("--root-dir", "the kubelet's --root-dir")
            && is_whole("used as --root", "cgroupRoot and cgroupDriver"),
        "{table}"
    );
    Ok(())
}

fn no_places_given(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    // Nobody crosses the disk's.
    let line = format!("{LINE},nodefs.available<1Mi");
    let mut evictor = node.evictor_that_finds_out(&line, state.path())?;
    node.apply(&Wish::hog("hog", 500).pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    let pod = node.until_evicted("default", "hog")?;
    ensure!(record(&pod) == decision.text("id"), "{}", decision.0);
    let (code, told) = evictor.terminate(Duration::from_secs(20))?;
    ensure!(code == Some(0), "{code:?}: {told}");
    let version = node.get(&["node", NODE])?;
    let version = text(&version, "/status/nodeInfo/kubeletVersion");
    for said in [
        "the kubelet, by ",
        &format!("root directory {}", node.cluster.kubelet_root().display()),
        "this node is known to the API server",
        version,
    ] {
        ensure!(
            !said.is_empty() && told.matches(said).count() == 1,
            "not once: {said}: {told}"
        );
    }
    Ok(Outcome::Noted(format!("beside kubelet {version}")))
}

fn flags_win(node: &Node) -> Result<()> {
    // With directories of their own, as a kubelet has them.
    let own = tempfile::tempdir()?;
    std::fs::create_dir(own.path().join("pods"))?;
    let own = own.path().display().to_string();
    let kubeconfig = node.kubeconfig.display().to_string();
    let pods = node.cluster.pods_group()?;
    let above = pods.parent().context("no parent")?.display().to_string();
    let line = "--eviction-hard=memory.available<100Mi,nodefs.available<1Mi";
    let (_, told) = eviction(
        node,
        &[
            "explain",
            "--platform=kubernetes",
            "--node-name",
            NODE,
            "--kubeconfig",
            &kubeconfig,
            line,
            "--root",
            &above,
            "--nodefs",
            &own,
            "--pod-logs",
            &own,
        ],
    )?;
    for (flag, given, decided) in [
        ("--root", &above, pods),
        ("--nodefs", &own, node.cluster.kubelet_root()),
        ("--pod-logs", &own, node.cluster.pod_logs()),
    ] {
        let said = format!("{flag} {given} wins over {}", decided.display());
        ensure!(told.contains(&said), "without {said:?}: {told}");
    }
    // The kubelet's line is 50 MiB away, so that is told, too.
    ensure!(
        told.contains("memory.available: the kubelet's line 50Mi (")
            && told.contains("ours comes first by 50.0 MiB"),
        "{told}"
    );
    Ok(())
}

fn pairing(node: &Node) -> Result<()> {
    for (ours, order, fix) in [
        ("200Mi", "ours comes first by 150.0 MiB", None),
        (
            "120Mi",
            "ours comes first by 70.0 MiB",
            Some("--eviction-hard 'memory.available<150Mi' or more"),
        ),
        ("50Mi", "both act together", Some("memory.available<150Mi")),
        (
            "10Mi",
            "the kubelet's comes first by 40.0 MiB",
            Some("memory.available<150Mi"),
        ),
    ] {
        let line = format!("--eviction-hard=memory.available<{ours}");
        // Its exit code is about this machine's kernel.
        let ended = Command::new(&node.programs.eviction)
            .args(["doctor", "--platform=kubernetes", "--output=json", &line])
            .output()?;
        let report: Value = serde_json::from_slice(&ended.stdout)
            .with_context(|| String::from_utf8_lossy(&ended.stderr).into_owned())?;
        let checks = report["checks"].as_array().context("no checks")?;
        let mut beside = checks
            .iter()
            .filter(|check| check["area"] == "beside the kubelet");
        let check = beside.find(|check| check["item"] == "memory.available");
        let check = check.with_context(|| format!("nothing of memory: {report}"))?;
        ensure!(text(check, "/detail").ends_with(order), "{ours}: {check}");
        let told = text(check, "/fix");
        ensure!(
            fix.map_or(check["fix"].is_null(), |fix| told.contains(fix)),
            "{ours}: {check}"
        );
        ensure!(
            check["state"] == if fix.is_none() { "used" } else { "absent" },
            "{check}"
        );
    }
    Ok(())
}

/// The file is another one by now, which the kubelet has not read.
fn own_word(node: &Node) -> Result<()> {
    // As on every real node: tokens and rights are checked by the API server.
    let strict = [
        (
            "authentication",
            json!({"anonymous": {"enabled": false}, "webhook": {"enabled": true}}),
        ),
        ("authorization", json!({"mode": "Webhook"})),
    ];
    node.cluster.reconfigure_kubelet(&node.parts, &strict)?;
    let account = ["serviceaccount", "onlooker", "--namespace=default"];
    let view = ["clusterrolebinding", "evtest-onlooker"];
    let told = told_to(node, &account, &view);
    for object in [&account[..], &view] {
        node.kubectl(&[&["delete", "--ignore-not-found"], object].concat())?;
    }
    node.cluster.reconfigure_kubelet(&node.parts, &[])?;
    told
}

fn told_to(node: &Node, account: &[&str], view: &[&str]) -> Result<()> {
    node.kubectl(&[&["create"], account].concat())?;
    let may_view = ["--clusterrole=view", "--serviceaccount=default:onlooker"];
    node.kubectl(&[&["create"], view, &may_view].concat())?;
    let token = ["create", "token", "onlooker", "--namespace=default"];
    let token = node.kubectl(&token)?;
    let onlooker = node.cluster.write_kubeconfig("onlooker", token.trim())?;
    let explained = |kubeconfig: &std::path::Path| {
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let node_name = format!("--node-name={NODE}");
        let line = "--eviction-hard=memory.available<120Mi";
        let arguments = [
            "explain",
            "--platform=kubernetes",
            &node_name,
            &kubeconfig,
            line,
        ];
        eviction(node, &arguments).map(|(_, told)| told)
    };
    let address = node.cluster.network.address;
    let by =
        format!("the kubelet, by https://{address}:10250/configz and the command line of process ");
    node.until("the kubelet says what it has in force", 30, |_| {
        let told = explained(&node.kubeconfig)?;
        Ok(told.contains(&by).then_some(()))
    })?;
    let file = node.cluster.folder.join("kubelet.yaml");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
    config["evictionHard"]["memory.available"] = json!("111Mi");
    std::fs::write(&file, serde_json::to_string_pretty(&config)?)?;
    let told = explained(&node.kubeconfig)?;
    let line = "memory.available: the kubelet's line 50Mi (the kubelet's /configz), ours 120Mi";
    ensure!(told.contains(line), "without {line}: {told}");
    let told = explained(&onlooker)?;
    for said in [
        &format!("at https://{address}:10250/configz what it has in force"),
        "the right to get nodes/configz is missing",
        &format!("the kubelet's line 111Mi ({}:", file.display()),
    ] {
        ensure!(told.contains(said), "without {said}: {told}");
    }
    Ok(())
}

/// Its lines are told, and a place that is another one is no reason to be quiet.
fn started_again(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    let line = format!("{LINE},memory.available<250Mi");
    // As when a node starts: its kubelet is there, and does not serve yet.
    let halted = Halted::program(node, "kubelet")?;
    let mut evictor = node.evictor_that_finds_out(&line, state.path())?;
    let started = evictor.wait_for("started", Duration::from_secs(1))?;
    let address = started.text("metrics").parse().context("no address")?;
    let until = |what: &str, status: u16, said: &str| {
        node.until(what, 30, |_| {
            let told = get(address, "/readyz")?;
            Ok((told.status == status && told.body.contains(said)).then_some(()))
        })
    };
    until(
        "its files count",
        200,
        "kubelet.yaml and the command line of process ",
    )?;
    drop(halted);
    until("the kubelet's own word is named", 200, ":10250/configz")?;
    let changed = told_of_changes(node, &until);
    // As it was, for whoever comes next.
    node.cluster.reconfigure_kubelet(&node.parts, &[])?;
    changed?;
    let pid = node.cluster.process("kubelet")?;
    until("it is as it was", 200, &format!("process {pid}\n"))?;
    node.apply(&Wish::hog("hog", 500).pod())?;
    let decision = evictor.wait_for("decision", Duration::from_secs(60))?;
    ensure!(decision.text("victim") == "hog", "{}", decision.0);
    let (code, told) = evictor.terminate(Duration::from_secs(20))?;
    ensure!(code == Some(0), "{code:?}: {told}");
    for said in [
        "with other settings: evictionHard.memory.available 200Mi (",
        ", was 50Mi)",
        "memory.available: the kubelet's line 200Mi (",
        "with other settings: podLogsDir ",
    ] {
        ensure!(told.contains(said), "without {said:?}: {told}");
    }
    Ok(())
}

fn told_of_changes(node: &Node, until: &dyn Fn(&str, u16, &str) -> Result<()>) -> Result<()> {
    let close =
        json!({"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"});
    let close = [("evictionHard", close)];
    node.cluster.reconfigure_kubelet(&node.parts, &close)?;
    until(
        "its new line is told",
        200,
        "memory.available: the kubelet's line 200Mi (",
    )?;
    let logs = node.cluster.folder.join("node/other-logs");
    let moved = [("podLogsDir", json!(logs))];
    node.cluster.reconfigure_kubelet(&node.parts, &moved)?;
    let said = format!(
        "kubelet: started again with podLogsDir {:?} (in use: {:?}): start eviction again",
        logs.display().to_string(),
        node.cluster.pod_logs().display().to_string()
    );
    until("the other place is told", 503, &said)
}
