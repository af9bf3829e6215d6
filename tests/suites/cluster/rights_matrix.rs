//! What the role of the chart allows, for each value that changes it: exactly this, as the API server itself lists it.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::Case;
use serde_json::{Value, json};
use xtask::manifests::Chart;

use crate::account::NAMESPACE;
use crate::node::{self, Node};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "each value of the chart gives exactly the rights that it needs",
        || node::with(matrix),
    )]
}

/// Not the one of the suite, whose role stays as it is.
const NAME: &str = "eviction-matrix";
/// A table of rights: `verbs resource`.
type Rights = &'static [&'static str];

/// Whatever the values.
const DEFAULT: Rights = &[
    "get,list,watch pods",
    "list,watch nodes",
    "get nodes/configz",
    "patch pods/status",
    "create,patch events.events.k8s.io",
];

/// With `nodeConditions`, which is on unless it is said otherwise.
const CONDITIONS: &str = "patch nodes/status";
/// With soft thresholds or a `hardPolicy` that asks.
const ASKS: &str = "create pods/eviction";

/// Values, and the rights that they add to those.
fn rows() -> Vec<(Value, Rights)> {
    vec![
        (json!({}), &[CONDITIONS]),
        (json!({"nodeConditions": false}), &[]),
        (json!({"nodeTaint": true}), &[CONDITIONS, "get,patch nodes"]),
        (json!({"admission": true}), &[CONDITIONS]),
        (
            json!({"afterEviction": "delete"}),
            &[CONDITIONS, "delete pods"],
        ),
        (json!({"storageLimits": true}), &[CONDITIONS]),
        (
            json!({"evictionSoft": {"memory.available": "1Gi"}, "evictionSoftGracePeriod": {"memory.available": "1m"}}),
            &[CONDITIONS, ASKS],
        ),
        (json!({"hardPolicy": "api"}), &[CONDITIONS, ASKS]),
        (json!({"hardPolicy": "kill+api"}), &[CONDITIONS, ASKS]),
        (
            json!({"evictionHard": {"nodefs.available": "5%"}}),
            &[CONDITIONS],
        ),
        (json!({"privileged": true}), &[CONDITIONS]),
        (json!({"dryRun": true}), &[CONDITIONS]),
        (json!({"nodeRestriction": false}), &[CONDITIONS]),
    ]
}

/// What nobody may be allowed, asked in the other way, too.
const NEVER: [&[&str]; 8] = [
    &["get", "secrets"],
    &["list", "secrets"],
    &["get", "configmaps"],
    &["create", "pods"],
    &["create", "pods", "--subresource=exec"],
    &["get", "nodes", "--subresource=proxy"],
    &["update", "pods"],
    &["delete", "nodes"],
];

fn matrix(node: &Node) -> Result<()> {
    let told = rows_hold(node);
    let all = ["serviceaccount", "clusterrole", "clusterrolebinding"];
    for kind in all {
        node.kubectl(&[
            "delete",
            kind,
            NAME,
            "--namespace",
            NAMESPACE,
            "--ignore-not-found",
        ])?;
    }
    told
}

fn rows_hold(node: &Node) -> Result<()> {
    let chart = Chart::open(&node.workspace)?;
    // What everybody has who has a token.
    let everybody = listed(node, "default")?;
    for (values, more) in rows() {
        bind(node, &chart, &values)?;
        let expected: BTreeSet<String> = DEFAULT
            .iter()
            .chain(more)
            .flat_map(|row| single(row))
            .collect();
        // The server hears of a role a moment later.
        let mut last = BTreeSet::new();
        let reached = node.until("the role is in force", 20, |node| {
            last = listed(node, NAME)?
                .difference(&everybody)
                .cloned()
                .collect();
            Ok((last == expected).then_some(()))
        });
        reached.with_context(|| format!("{values}: allowed {last:?}, expected {expected:?}"))?;
        for question in NEVER {
            let allowed = may(node, question)?;
            ensure!(!allowed, "{values}: may {question:?}");
        }
    }
    Ok(())
}

/// Account, role and binding of the chart with these values.
fn bind(node: &Node, chart: &Chart, values: &Value) -> Result<()> {
    let file = node.cluster.folder.join("matrix-values.json");
    let mut values = values.clone();
    values["fullnameOverride"] = json!(NAME);
    std::fs::write(&file, values.to_string())?;
    let file = file.to_str().context("not UTF-8")?;
    let only = "templates/rbac.yaml";
    let rendered = chart
        .template(&["--values", file, "--show-only", only])
        .output()?;
    ensure!(
        rendered.status.success(),
        "{}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    let manifest = node.cluster.folder.join("matrix.yaml");
    std::fs::write(&manifest, rendered.stdout)?;
    node.kubectl(&["apply", "-f", manifest.to_str().context("not UTF-8")?])
        .map(drop)
}

/// `a,b c` as `a c` and `b c`.
fn single(row: &str) -> Vec<String> {
    let (verbs, resource) = row.split_once(' ').unwrap_or((row, ""));
    verbs
        .split(',')
        .map(|verb| format!("{verb} {resource}"))
        .collect()
}

fn account(name: &str) -> String {
    format!("--as=system:serviceaccount:{NAMESPACE}:{name}")
}

/// `kubectl auth can-i --list`: what the API server's rules say, one right an entry; also those to paths and to named objects.
fn listed(node: &Node, name: &str) -> Result<BTreeSet<String>> {
    let list = ["auth", "can-i", "--list", "--no-headers", &account(name)];
    let told = node.kubectl(&list)?;
    let mut rights = BTreeSet::new();
    for line in told.lines() {
        let (what, verbs) = line.rsplit_once('[').context("no verbs")?;
        let what: Vec<&str> = what
            .split_whitespace()
            .filter(|part| *part != "[]")
            .collect();
        let verbs = verbs.trim_end().trim_end_matches(']');
        rights.extend(
            verbs
                .split(' ')
                .map(|verb| format!("{verb} {}", what.join(" "))),
        );
    }
    Ok(rights)
}

fn may(node: &Node, question: &[&str]) -> Result<bool> {
    let account = account(NAME);
    let all = [
        &["auth", "can-i"],
        question,
        &["--all-namespaces", &account],
    ]
    .concat();
    // A no is also told by the exit code.
    match node.kubectl(&all) {
        Ok(told) => Ok(told.trim() == "yes"),
        Err(error) => {
            let told = format!("{error:#}");
            ensure!(told.lines().any(|line| line.trim() == "no"), "{told}");
            Ok(false)
        }
    }
}
