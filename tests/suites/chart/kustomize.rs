//! One source of truth: what kustomize installs is what the chart says.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::Case;
use serde_json::json;
use xtask::cluster::Parts;
use xtask::manifests;
use xtask::workspace::Workspace;

use crate::rendered::{Objects, chart, printed, render};

/// Helm's own, which nobody else reads.
const HELM_LABELS: [&str; 3] = [
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
];

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("the kustomize base is rendered from the chart", current),
        Case::new("kustomize installs what helm installs", || {
            same("base", false)
        }),
        Case::new("privileged, too", || same("privileged", true)),
    ]
}

fn current() -> Result<()> {
    let manifests = manifests::render(&Workspace::find()?)?;
    for manifest in &manifests {
        ensure!(
            manifest.is_current(),
            "{} is not what the chart renders: run `cargo xtask manifests`",
            manifest.path.display()
        );
    }
    Ok(())
}

fn same(variant: &str, privileged: bool) -> Result<()> {
    let workspace = Workspace::find()?;
    let kubectl = Parts::build(&workspace)?.program("kubectl")?;
    let folder = "eviction-user/deploy/kustomize";
    let folder = workspace.root().join(folder).join(variant);
    let with_kustomize = printed(Command::new(kubectl).arg("kustomize").arg(folder))?;
    let with_kustomize = Objects::parse(&with_kustomize)?;

    let mut with_helm = render(&chart()?, &json!({"privileged": privileged}))?;
    for label in HELM_LABELS {
        let labels = &with_helm.get("DaemonSet")?["metadata"]["labels"];
        labels
            .get(label)
            .with_context(|| format!("helm sets no {label}"))?;
        with_helm = with_helm.without_label(label);
    }
    let difference = with_helm.difference(&with_kustomize);
    ensure!(difference.is_none(), "helm and kustomize: {difference:?}");
    let context = &with_kustomize.container()?["securityContext"];
    let is_privileged = context["privileged"] == true;
    ensure!(is_privileged == privileged, "{context}");
    Ok(())
}
