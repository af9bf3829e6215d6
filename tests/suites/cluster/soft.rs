//! Pods that are evicted by the Eviction API: for soft thresholds, and for hard ones where `--hard-policy` says so. With real
//! PodDisruptionBudgets.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use eviction_tests::http::get;
use eviction_tests::scenario::Evictor;
use eviction_tests::suite::{Case, Outcome};
use serde_json::{Value, json};
use xtask::cluster::NODE;

use crate::api::{phase, record, restarts, text};
use crate::halted::Halted;
use crate::memory::check_events;
use crate::node::{self, LINE, Node};
use crate::pods::Wish;

/// Between this line and the hard one there is room for a hog that stops.
pub(crate) const SOFT: &str = "allocatableMemory.available<700Mi";
pub(crate) const FOR: &str = "allocatableMemory.available=1s";
/// In seconds; less than what the pods ask for.
pub(crate) const MAX_GRACE: u64 = 4;
/// Crosses the soft line, and not the hard one.
pub(crate) const BEYOND_SOFT: u64 = 950;
const SOON: Duration = Duration::from_secs(60);

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "cases 40 and 47: a soft hog has its grace, by the Eviction API, and is never started again",
            || node::with(soft_hog),
        ),
        Case::new(
            "case 49: a budget or two on a pod protect it from a soft eviction, the next one goes",
            || node::with(protected),
        ),
        Case::new("a hard threshold met in the grace ends it at once", || {
            node::with(no_more_grace)
        }),
        Case::new(
            "restarted in the middle of a soft eviction: followed to its end, nobody else goes",
            || node::with(restarted),
        ),
        Case::new(
            "API server away: nobody goes softly, one when it is back",
            || node::with(away),
        ),
        Case::new(
            "case 46: by --hard-policy the Eviction API is asked first, and whom a budget protects stays",
            || node::with(hard_policies),
        ),
        Case::new(
            "case 46: with kill+api and no API server one is killed all the same, told, counted and on record",
            || node::with(bypassed),
        ),
    ]
}

/// With the right to create evictions, which only these stories need.
fn asking(node: &Node, story: impl FnOnce() -> Result<()>) -> Result<()> {
    for manifest in rights() {
        node.apply(&manifest)?;
    }
    let told = story();
    node.kubectl(&["delete", "clusterrolebinding", "eviction-asks"])?;
    let all = ["delete", "poddisruptionbudgets", "--all", "--wait=false"];
    node.kubectl(&all)?;
    told
}

fn rights() -> [Value; 2] {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let named = |kind: &str| json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {"name": "eviction-asks"}});
    let mut role = named("ClusterRole");
    role["rules"] =
        json!([{"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}]);
    let mut binding = named("ClusterRoleBinding");
    binding["roleRef"] = json!({"apiGroup": RBAC, "kind": "ClusterRole", "name": "eviction-asks"});
    binding["subjects"] =
        json!([{"kind": "ServiceAccount", "name": "eviction", "namespace": "kube-system"}]);
    [role, binding]
}

/// `grace`: seconds that a pod gets, at most.
fn soft_evictor(node: &Node, state: &std::path::Path, grace: u64) -> Result<Evictor> {
    let grace = format!("--eviction-max-pod-grace-period={grace}");
    let soft = format!("--eviction-soft={SOFT}");
    let length = format!("--eviction-soft-grace-period={FOR}");
    node.evictor_with(&[&soft, &length, &grace], LINE, state)
}

/// Holds so much, wants a minute to end, and as process 1 of its pod does not hear a SIGTERM.
pub(crate) fn slow(name: &'static str, mib: u64) -> Value {
    let wish = Wish {
        request: Some("16Mi"),
        ..Wish::holding(name, mib)
    };
    let mut pod = wish.pod();
    pod["metadata"]["labels"] = json!({"app": name});
    pod["spec"]["terminationGracePeriodSeconds"] = json!(60);
    pod
}

/// None of those that it selects may go.
fn budget(name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    })
}

/// Its controller has seen it.
fn until_counted(node: &Node, budget: &str) -> Result<()> {
    node.until("the budget is counted", 30, |node| {
        let budget = node.get(&["poddisruptionbudget", budget])?;
        let healthy = budget
            .pointer("/status/currentHealthy")
            .and_then(Value::as_u64);
        Ok((healthy == Some(1)).then_some(()))
    })
}

/// As the API shows a pod on its way out; gone with the object.
pub(crate) fn until_leaving(node: &Node, name: &str, seconds: u64) -> Result<Value> {
    let pod = node.until(&format!("{name} is leaving"), 60, |node| {
        let pod = node.pod("default", name)?;
        Ok((!text(&pod, "/metadata/deletionTimestamp").is_empty()).then_some(pod))
    })?;
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds");
    ensure!(grace == Some(&json!(seconds)), "grace: {grace:?}");
    ensure!(record(&pod).is_empty(), "it was patched: {pod}");
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let by = conditions.find(|c| c["type"] == "DisruptionTarget");
    let by = by.map(|c| text(c, "/reason"));
    ensure!(by == Some("EvictionByEvictionAPI"), "{pod}");
    ensure!(restarts(&pod) == Some(0), "it was restarted: {pod}");
    Ok(pod)
}

pub(crate) fn until_no_object(node: &Node, name: &str) -> Result<()> {
    node.until(&format!("{name} is no more"), 60, |node| {
        let left = node.get(&["pods", "--field-selector", &format!("metadata.name={name}")])?;
        Ok((left["items"] == json!([])).then_some(()))
    })
}

/// A pod that crosses the soft line goes by the Eviction API: with its grace, in which it still runs (`meanwhile`), and with one event.
/// Returned is what it was then. With the lines of this file in force.
pub(crate) fn leaves_in_its_grace(
    node: &Node,
    on: &str,
    hog: &Value,
    meanwhile: impl FnOnce(&Value) -> Result<()>,
) -> Result<Value> {
    let name = text(hog, "/metadata/name");
    let mut hog = hog.clone();
    hog["spec"]["nodeName"] = json!(on);
    node.apply(&hog)?;
    let pod = until_leaving(node, name, MAX_GRACE)?;
    ensure!(phase(&pod) == "Running", "no grace: {pod}");
    meanwhile(&pod)?;
    until_no_object(node, name)?;
    let event = node.until("the event on the pod", 10, |node| {
        Ok(node.events("default", name, "Evicted")?.pop())
    })?;
    ensure!(text(&event, "/message").contains("[record "), "{event}");
    Ok(pod)
}

fn only(evictor: &mut Evictor, kind: &str, victims: &[&str]) -> Result<()> {
    evictor.drain();
    let found: Vec<_> = evictor
        .of_kind(kind)
        .map(|r| r.text("victim").to_owned())
        .collect();
    ensure!(found == victims, "{kind}: {found:?}");
    Ok(())
}

fn no_kill(evictor: &mut Evictor) -> Result<()> {
    evictor.drain();
    let kills = evictor.of_kind("kill").count();
    ensure!(kills == 0, "{kills} were killed by us");
    Ok(())
}

fn soft_hog(node: &Node) -> Result<Outcome> {
    let state = tempfile::tempdir()?;
    let mut evictor = soft_evictor(node, state.path(), MAX_GRACE)?;
    let started = evictor.wait_for("started", SOON)?;
    let address = started.text("metrics").parse().context("no metrics")?;
    node.until("the missing right is named", 20, |_| {
        let unready = get(address, "/readyz")?;
        let named = unready
            .body
            .contains("the rights to create pods/eviction are missing");
        Ok((unready.status == 503 && named).then_some(()))
    })?;
    let mut shown = String::new();
    asking(node, || {
        let sibling = slow("sibling", 100);
        node.apply(&sibling)?;
        node.until_running("default", "sibling")?;
        let pod = leaves_in_its_grace(node, NODE, &slow("hog", BEYOND_SOFT), |pod| {
            let there = node.has_group(text(pod, "/metadata/uid"))?;
            ensure!(there, "no grace: {pod}");
            Ok(())
        })?;
        shown = format!(
            "deletionGracePeriodSeconds {}, {}",
            pod["metadata"]["deletionGracePeriodSeconds"], pod["status"]["conditions"][0]
        );
        let decision = evictor.wait_for("decision", SOON)?;
        ensure!(decision.text("victim") == "hog", "{}", decision.0);
        evictor.wait_for("gone", SOON)?;
        let uid = text(&pod, "/metadata/uid");
        ensure!(!node.has_group(uid)?, "its cgroup is left");
        check_events(node, NODE, "hog", decision.text("id"))?;
        node.lives_on("default", "sibling")?;
        no_kill(&mut evictor)?;
        only(&mut evictor, "decision", &["hog"])?;
        node.until("no record is left", 10, |_| {
            let left = std::fs::read_dir(state.path().join("records"))?.count();
            Ok((left == 0).then_some(()))
        })
    })?;
    Ok(Outcome::Noted(shown))
}

fn protected(node: &Node) -> Result<()> {
    asking(node, || {
        for (name, mib) in [("web", 380), ("db", 330), ("hog", 250)] {
            node.apply(&slow(name, mib))?;
            node.until_running("default", name)?;
        }
        // Of a pod that two of them select its controller tells only one: they are made after it.
        for (name, app) in [("web", "web"), ("db", "db"), ("db-too", "db")] {
            node.apply(&budget(name, app))?;
            until_counted(node, name)?;
        }
        let state = tempfile::tempdir()?;
        let mut evictor = soft_evictor(node, state.path(), MAX_GRACE)?;
        until_leaving(node, "hog", MAX_GRACE)?;
        evictor.drain();
        let words = [
            "budget web needs 1 healthy pods",
            "two or more PodDisruptionBudgets select this pod",
        ];
        let refused: Vec<_> = evictor.of_kind("refused").collect();
        ensure!(refused.len() == words.len(), "{refused:?}");
        for (refused, words) in refused.into_iter().zip(words) {
            ensure!(refused.text("reason").contains(words), "{}", refused.0);
        }
        until_leaving(node, "hog", MAX_GRACE)?;
        evictor.wait_for("gone", SOON)?;
        only(&mut evictor, "decision", &["web", "db", "hog"])?;
        no_kill(&mut evictor)?;
        for name in ["web", "db"] {
            node.lives_on("default", name)?;
            let events = node.events("default", name, "Evicted")?;
            ensure!(events.is_empty(), "{events:?}");
        }
        let told = get(metrics(&mut evictor)?, "/metrics")?.body;
        let counted = told
            .lines()
            .find(|line| line.contains(r#"outcome="refused""#));
        ensure!(counted.is_some_and(|line| line.ends_with(" 2")), "{told}");
        Ok(())
    })
}

fn metrics(evictor: &mut Evictor) -> Result<std::net::SocketAddr> {
    evictor.drain();
    let started = evictor.of_kind("started").next().context("not started")?;
    started.text("metrics").parse().context("no metrics")
}

fn no_more_grace(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    asking(node, || {
        let mut evictor = soft_evictor(node, state.path(), 50)?;
        node.apply(&slow("hog", BEYOND_SOFT))?;
        evictor.wait_for("asked", SOON)?;
        until_leaving(node, "hog", 50)?;
        no_kill(&mut evictor)?;
        // As much as crosses the hard line.
        node.apply(&slow("more", 250))?;
        evictor.wait_for("kill", SOON)?;
        evictor.wait_for("gone", SOON)?;
        until_no_object(node, "hog")?;
        only(&mut evictor, "decision", &["hog"])?;
        node.lives_on("default", "more")
    })
}

fn restarted(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    asking(node, || {
        let mut evictor = soft_evictor(node, state.path(), 12)?;
        for (name, mib) in [("other", 300), ("hog", 650)] {
            node.apply(&slow(name, mib))?;
        }
        let decision = evictor.wait_for("decision", SOON)?;
        until_leaving(node, "hog", 12)?;
        drop(evictor);
        let mut evictor = soft_evictor(node, state.path(), 12)?;
        let taken = evictor.wait_for("taken-over", SOON)?;
        ensure!(taken.text("uid") == decision.text("uid"), "{}", taken.0);
        ensure!(taken.number("grace_ms").is_some(), "{}", taken.0);
        evictor.wait_for("gone", SOON)?;
        until_no_object(node, "hog")?;
        no_kill(&mut evictor)?;
        only(&mut evictor, "decision", &[])?;
        node.lives_on("default", "other")
    })
}

fn away(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    asking(node, || {
        let mut evictor = soft_evictor(node, state.path(), MAX_GRACE)?;
        for (name, mib) in [("other", 300), ("hog", 600)] {
            node.apply(&slow(name, mib))?;
            node.until_running("default", name)?;
        }
        let halted = Halted::program(node, "kube-apiserver")?;
        let asked = evictor.wait_for("asked", SOON)?;
        let refused = evictor.wait_for("refused", SOON)?;
        ensure!(refused.text("uid") == asked.text("uid"), "{}", refused.0);
        ensure!(
            refused.text("reason").contains("cannot be asked"),
            "{}",
            refused.0
        );
        no_kill(&mut evictor)?;
        drop(halted);
        evictor.wait_for("gone", SOON)?;
        until_no_object(node, "hog")?;
        evictor.drain();
        let other = evictor
            .of_kind("decision")
            .find(|d| d.text("victim") != "hog");
        ensure!(other.is_none(), "two victims: {other:?}");
        node.lives_on("default", "other")
    })
}

fn hard_policies(node: &Node) -> Result<()> {
    asking(node, || {
        node.apply(&budget("web", "web"))?;
        for policy in ["api", "kill+api"] {
            let state = tempfile::tempdir()?;
            let policy_flag = format!("--hard-policy={policy}");
            for (name, mib) in [("web", 700), ("hog", 500)] {
                node.apply(&slow(name, mib))?;
                node.until_running("default", name)?;
            }
            until_counted(node, "web")?;
            let mut evictor = node.evictor_with(&[&policy_flag], LINE, state.path())?;
            let refused = evictor.wait_for("refused", SOON)?;
            ensure!(refused.text("reason").contains("429"), "{}", refused.0);
            evictor.wait_for("gone", SOON)?;
            until_no_object(node, "hog")?;
            evictor.drain();
            let killed = evictor.of_kind("kill").count();
            ensure!(
                killed == usize::from(policy == "kill+api"),
                "{policy}: {killed} kills"
            );
            only(&mut evictor, "decision", &["web", "hog"])?;
            node.lives_on("default", "web")?;
            drop(evictor);
            node.clean()?;
        }
        Ok(())
    })
}

fn bypassed(node: &Node) -> Result<()> {
    let state = tempfile::tempdir()?;
    asking(node, || {
        let mut evictor = node.evictor_with(&["--hard-policy=kill+api"], LINE, state.path())?;
        // Slow enough that the server is away before it crosses the line.
        node.apply(&Wish::hog("hog", 100).pod())?;
        node.until_running("default", "hog")?;
        let halted = Halted::program(node, "kube-apiserver")?;
        evictor.wait_for("bypassed", SOON)?;
        evictor.wait_for("kill", SOON)?;
        drop(halted);
        evictor.wait_for("gone", SOON)?;
        let told = get(metrics(&mut evictor)?, "/metrics")?.body;
        let counted = told
            .lines()
            .find(|line| line.contains(r#"outcome="bypassed""#));
        ensure!(counted.is_some_and(|line| line.ends_with(" 1")), "{told}");
        evictor.drain();
        let others = evictor
            .of_kind("decision")
            .filter(|d| d.text("victim") != "hog");
        ensure!(others.count() == 0, "another one went, too");
        // On record, or deleted by an eviction that was heard after all.
        node.until("it is told of", 30, |node| {
            let event = node.events("default", "hog", "Evicted")?.pop();
            Ok(event.map(drop))
        })
    })
}
