//! The program takes what the chart gives it.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::{self, Case};
use serde_json::{Value, json};

use crate::rendered::{Objects, chart, printed, render};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("the program takes every argument of the chart", arguments),
        Case::new("the program knows every addition of the chart", additions),
    ]
}

/// All that leads to an argument. Of the additions only those that every machine has the figures for: the program checks that, too.
fn everything(port: u16) -> Value {
    json!({
        "dryRun": true,
        "metrics": {"port": port},
        "evictionHard": {
            "memory.available": "500Mi",
            "allocatableMemory.available": "10%",
            "pid.available": "1000",
            "nodefs.available": "5%",
            "imagefs.available": "5%",
        },
        "disk": {"runtimeEndpoint": "unix:///run/nowhere/runtime.sock"},
        "afterEviction": "delete",
        "hardPolicy": "kill+api",
        "evictionSoft": {"memory.available": "1Gi", "nodefs.available": "15%"},
        "evictionSoftGracePeriod": {"memory.available": "1m30s", "nodefs.available": "1m"},
        "evictionMaxPodGracePeriod": 30,
        "evictionMinimumReclaim": {"memory.available": "1Gi", "pid.available": "5%"},
        "additions": {"maxEvictionsPerHour": 6},
        "extraArgs": ["--looks"],
    })
}

fn arguments() -> Result<()> {
    let chart = chart()?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    for values in [json!({"metrics": {"port": port}}), everything(port)] {
        let told = start(&render(&chart, &values)?, &[])?;
        // All was well up to there: outside of a pod there is no service account.
        ensure!(
            told.contains("elsewhere give --kubeconfig FILE"),
            "{values}: {told}"
        );
    }
    let told = start(&render(&chart, &json!({}))?, &["--no-such-flag"])?;
    ensure!(told.contains("'--no-such-flag'"), "{told}");
    Ok(())
}

/// Starts the program as the kubelet would, as far as that goes without a cluster; returns what it complains about.
fn start(objects: &Objects, more: &[&str]) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("config");
    std::fs::create_dir(&config)?;
    if objects.find("ConfigMap").is_some() {
        std::fs::write(config.join("config.yaml"), configuration(objects)?)?;
    }
    let state = folder.path().join("state");
    let disks = folder.path().join("disks");
    std::fs::create_dir_all(disks.join("pods"))?;
    let mounted = [
        ("/var/lib/kubelet", &*disks),
        ("/var/lib/containerd", &disks),
        ("/var/log/pods", &disks),
        ("$(HOST_IP)", Path::new("127.0.0.1")),
        ("/var/lib/eviction", &state),
        ("/etc/eviction", &config),
    ];
    let mut run = Command::new(suite::programs()?.join("eviction"));
    for argument in objects.arguments()? {
        let mut seen = argument.to_owned();
        for (place, here) in mounted {
            seen = seen.replace(place, here.to_str().context("not UTF-8")?);
        }
        run.arg(seen);
    }
    // The cgroup of all pods; no kubelet has made one here.
    let v1 = Path::new("/sys/fs/cgroup/memory");
    let root = if v1.is_dir() {
        v1
    } else {
        Path::new("/sys/fs/cgroup")
    };
    run.arg("--root").arg(root).args(more);
    run.env("NODE_NAME", "n")
        .env_remove("KUBERNETES_SERVICE_HOST");
    let ended = run.output()?;
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    ensure!(
        ended.status.code() == Some(2),
        "{run:?}: {}: {told}",
        ended.status
    );
    Ok(told)
}

fn configuration(objects: &Objects) -> Result<&str> {
    let file = &objects.get("ConfigMap")?["data"]["config.yaml"];
    file.as_str().context("no config.yaml")
}

fn additions() -> Result<()> {
    let chart = chart()?;
    let all = json!({
        "reclaimAwareMemory": true,
        "swapAwareMemory": false,
        "evictionCoolDown": "30s",
        "maxEvictionsPerHour": 6,
        "minimumMemoryStallPercent": 2.5,
        "maximumDyingCgroups": 100_000,
        "minimumVictimSize": {"memory": "64Mi", "disk": "1Gi", "inodes": "1000", "processes": "10"},
        "protectedNamespaces": ["kube-system"],
        "protectedLabels": ["keep", "tier=db"],
        "honorAnnotations": true,
    });
    let schema = std::fs::read_to_string(chart.folder.join("values.schema.json"))?;
    let schema: Value = serde_json::from_str(&schema)?;
    let keys = |map: &Value| -> BTreeSet<String> {
        let map = map.as_object().into_iter();
        map.flat_map(|map| map.keys().cloned()).collect()
    };
    let known = &schema["properties"]["additions"]["properties"];
    ensure!(
        keys(known) == keys(&all),
        "this test and the schema disagree: {known}"
    );
    let objects = render(&chart, &json!({"additions": all}))?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("config.yaml");
    std::fs::write(&file, configuration(&objects)?)?;
    let mut effective = Command::new(suite::programs()?.join("eviction"));
    let effective = printed(
        effective
            .args(["config", "effective", "--config"])
            .arg(&file),
    )?;
    for key in keys(&all) {
        ensure!(effective.contains(&key), "{key} is not in: {effective}");
    }
    Ok(())
}
