//! What others in the cluster are to do with it: scrape it, be alerted, keep off.

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::Case;
use serde_json::{Value, json};

use crate::rendered::{chart, render};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "monitor, alerts and network policy come when they are asked for",
        story,
    )]
}

fn story() -> Result<()> {
    let chart = chart()?;
    let kinds = [
        "Service",
        "ServiceMonitor",
        "PrometheusRule",
        "NetworkPolicy",
    ];
    let none = render(&chart, &json!({}))?;
    for kind in kinds {
        ensure!(
            none.find(kind).is_none(),
            "a {kind} without being asked for"
        );
    }
    let peers = json!([{"podSelector": {"matchLabels": {"app": "prometheus"}}}]);
    let objects = render(
        &chart,
        &json!({
            "metrics": {"port": 9000},
            "serviceMonitor": {"enabled": true, "interval": "1m", "labels": {"release": "p"}},
            "prometheusRule": {"enabled": true, "labels": {"release": "p"}},
            "networkPolicy": {"enabled": true, "from": peers},
        }),
    )?;
    let pods = &objects.get("DaemonSet")?["spec"]["selector"]["matchLabels"];
    let port = json!({"name": "metrics", "port": 9000, "targetPort": "metrics"});
    let headless = json!("None");
    let release = json!("p");
    for (kind, path, expected) in [
        ("Service", "/spec/selector", pods),
        ("Service", "/spec/clusterIP", &headless),
        ("Service", "/spec/ports/0", &port),
        ("ServiceMonitor", "/spec/selector/matchLabels", pods),
        ("ServiceMonitor", "/spec/endpoints/0/port", &port["name"]),
        ("ServiceMonitor", "/spec/endpoints/0/interval", &json!("1m")),
        ("ServiceMonitor", "/metadata/labels/release", &release),
        ("PrometheusRule", "/metadata/labels/release", &release),
        ("NetworkPolicy", "/spec/podSelector/matchLabels", pods),
        ("NetworkPolicy", "/spec/ingress/0/from", &peers),
        (
            "NetworkPolicy",
            "/spec/ingress/0/ports/0/port",
            &json!(9000),
        ),
    ] {
        let object = objects.get(kind)?;
        ensure!(
            object.pointer(path) == Some(expected),
            "{kind}: {path}: {object}"
        );
    }
    // The Service is found by the monitor.
    let labels = &objects.get("Service")?["metadata"]["labels"];
    let wanted = pods.as_object().context("no labels")?;
    ensure!(
        wanted.iter().all(|(key, value)| &labels[key] == value),
        "{labels}"
    );
    let rules = &objects.get("PrometheusRule")?["spec"]["groups"][0]["rules"];
    let rules = rules.as_array().context("no rules")?;
    let is_whole = |rule: &Value| {
        [
            "/alert",
            "/expr",
            "/labels/severity",
            "/annotations/summary",
        ]
        .iter()
        .all(|path| rule.pointer(path).is_some_and(Value::is_string))
    };
    ensure!(rules.len() >= 8 && rules.iter().all(is_whole), "{rules:?}");
    let of_the_set = r#"{namespace="kube-system",daemonset="eviction"}"#;
    ensure!(
        rules[0]["expr"]
            .to_string()
            .replace('\\', "")
            .contains(of_the_set),
        "{}",
        rules[0]
    );
    Ok(())
}
