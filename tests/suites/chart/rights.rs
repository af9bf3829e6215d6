//! What its account may do.

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::Case;
use serde_json::json;

use crate::rendered::{chart, render};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("the right to delete pods comes with its use", deletes),
        Case::new("of nodes it reads no more than it needs", nodes),
    ]
}

fn nodes() -> Result<()> {
    let objects = render(&chart()?, &json!({}))?;
    // Not nodes/proxy: by that one runs programs in every pod.
    let rules = objects.get("ClusterRole")?["rules"].as_array().cloned();
    let rules = rules.context("no rules")?;
    let of_nodes: Vec<_> = rules
        .iter()
        .filter(|rule| rule["resources"].to_string().contains("nodes"))
        .map(|rule| (&rule["resources"][0], &rule["verbs"]))
        .collect();
    ensure!(
        of_nodes
            == [
                (&json!("nodes"), &json!(["list", "watch"])),
                (&json!("nodes/configz"), &json!(["get"])),
            ],
        "{of_nodes:?}"
    );
    Ok(())
}

fn deletes() -> Result<()> {
    let chart = chart()?;
    for (values, verbs) in [
        (json!({}), json!(["get", "list", "watch"])),
        (
            json!({"afterEviction": "delete"}),
            json!(["get", "list", "watch", "delete"]),
        ),
    ] {
        let objects = render(&chart, &values)?;
        let pods = &objects.get("ClusterRole")?["rules"][0];
        ensure!(
            pods["resources"] == json!(["pods"]) && pods["verbs"] == verbs,
            "{values}: {pods}"
        );
        let tells = objects.arguments()?.contains(&"--after-eviction=delete");
        ensure!(tells == (values != json!({})), "{values}");
    }
    Ok(())
}
