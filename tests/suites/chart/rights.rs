//! What its account may do.

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::Case;
use serde_json::json;

use crate::rendered::{chart, render};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("the right to delete pods comes with its use", deletes),
        Case::new("the right to ask for evictions comes with its use", asks),
        Case::new(
            "the node is written to with the rights for what is asked for",
            pressure,
        ),
        Case::new("of nodes it reads no more than it needs", nodes),
        Case::new(
            "its account is held to its node unless told otherwise",
            node,
        ),
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
                (&json!("nodes/status"), &json!(["patch"])),
                (&json!("nodes/configz"), &json!(["get"])),
            ],
        "{of_nodes:?}"
    );
    Ok(())
}

fn asks() -> Result<()> {
    let chart = chart()?;
    let soft = json!({
        "evictionSoft": {"memory.available": "1Gi"},
        "evictionSoftGracePeriod": {"memory.available": "1m"},
    });
    for (values, expected) in [
        (json!({}), false),
        (soft, true),
        (json!({"hardPolicy": "api"}), true),
        (json!({"hardPolicy": "kill+api"}), true),
    ] {
        let objects = render(&chart, &values)?;
        let rules = objects.get("ClusterRole")?["rules"].as_array().cloned();
        let rules = rules.context("no rules")?;
        let asks = rules
            .iter()
            .find(|rule| rule["resources"] == json!(["pods/eviction"]));
        let verbs = asks.map(|rule| &rule["verbs"]);
        let only_create = json!(["create"]);
        ensure!(
            verbs == expected.then_some(&only_create),
            "{values}: {rules:?}"
        );
    }
    Ok(())
}

/// Of conditions, taint and refusal each by its own value.
fn pressure() -> Result<()> {
    let chart = chart()?;
    let none = json!({"nodeConditions": false});
    let taint = json!({"nodeConditions": false, "nodeTaint": true, "admission": true});
    let read = json!(["list", "watch"]);
    let written = json!(["get", "list", "watch", "patch"]);
    for (values, verbs, status, flags) in [
        (json!({}), &read, true, "--node-conditions=on"),
        (none, &read, false, ""),
        (taint, &written, false, "--node-taint=on --admission=on"),
    ] {
        let objects = render(&chart, &values)?;
        let rules = objects.get("ClusterRole")?["rules"].as_array().cloned();
        let rules = rules.context("no rules")?;
        let of = |resource: &str| {
            let mut rules = rules.iter();
            rules.find(|rule| rule["resources"] == json!([resource]))
        };
        let nodes = of("nodes").context("no rule about nodes")?;
        ensure!(&nodes["verbs"] == verbs, "{values}: {nodes}");
        ensure!(
            of("nodes/status").is_some() == status,
            "{values}: {rules:?}"
        );
        let told = objects.arguments()?;
        let told = told
            .into_iter()
            .filter(|flag| flag.starts_with("--node-") || flag.starts_with("--admission"));
        let told: Vec<_> = told.collect();
        ensure!(told.join(" ") == flags, "{values}: {told:?}");
    }
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

/// Of what the API server makes of it suite `cluster` tells.
fn node() -> Result<()> {
    let chart = chart()?;
    for (values, account) in [
        (json!({}), "kube-system:eviction"),
        (
            json!({"serviceAccount": {"name": "own"}}),
            "kube-system:own",
        ),
        (
            json!({"serviceAccount": {"create": false, "name": "there"}}),
            "kube-system:there",
        ),
        (json!({"fullnameOverride": "other"}), "kube-system:other"),
    ] {
        let objects = render(&chart, &values)?;
        let policy = objects.get("ValidatingAdmissionPolicy")?;
        let spec = &policy["spec"];
        let expected = format!("request.userInfo.username == 'system:serviceaccount:{account}'");
        ensure!(
            spec["matchConditions"][0]["expression"] == expected && spec["failurePolicy"] == "Fail",
            "{values}: {spec}"
        );
        let binding = objects.get("ValidatingAdmissionPolicyBinding")?;
        ensure!(
            binding["spec"]["policyName"] == policy["metadata"]["name"]
                && binding["spec"]["validationActions"] == json!(["Deny"]),
            "{binding}"
        );
    }
    let objects = render(&chart, &json!({"nodeRestriction": false}))?;
    for kind in [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ] {
        ensure!(objects.find(kind).is_none(), "there is a {kind}");
    }
    Ok(())
}
