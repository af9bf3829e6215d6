//! `cargo xtask manifests`: the kustomize base, rendered from the chart by the real helm. The chart is the one source of what is
//! installed; what is rendered is kept in the tree for those who have no helm, and a test compares it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::cluster::Parts;
use crate::console;
use crate::process::capture;
use crate::workspace::Workspace;

const CHART: &str = "eviction-user/deploy/chart";
const BASE: &str = "eviction-user/deploy/kustomize/base";
/// The templates that say something without any value given; each becomes a file of its name.
const FILES: [&str; 3] = ["rbac.yaml", "node-restriction.yaml", "daemonset.yaml"];
const HEAD: &str = "# Rendered from eviction-user/deploy/chart by `cargo xtask manifests`: change that, not this.\n";

/// The chart, and the helm that reads it.
#[derive(Clone, Debug)]
pub struct Chart {
    pub folder: PathBuf,
    pub helm: PathBuf,
}

impl Chart {
    /// Builds helm if the cache lacks it.
    pub fn open(workspace: &Workspace) -> Result<Self> {
        Ok(Self {
            folder: workspace.root().join(CHART),
            helm: Parts::helm(workspace)?.program("helm")?,
        })
    }

    /// Helm, without what the caller's environment would have it do otherwise.
    #[must_use]
    pub fn helm(&self) -> Command {
        let mut helm = Command::new(&self.helm);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HELM_") {
                helm.env_remove(name);
            }
        }
        helm
    }

    /// What a release `eviction` in `kube-system` would send to the API server. `arguments`: values, as `--set` or `--values`.
    #[must_use]
    pub fn template(&self, arguments: &[&str]) -> Command {
        let mut helm = self.helm();
        helm.args(["template", "eviction"])
            .arg(&self.folder)
            .args(["--namespace", "kube-system"])
            .args(arguments);
        helm
    }
}

/// A file of the base as the chart has it.
pub struct Manifest {
    pub path: PathBuf,
    pub text: String,
}

impl Manifest {
    /// Whether the tree has the same.
    #[must_use]
    pub fn is_current(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
    }
}

/// All files of the base.
pub fn render(workspace: &Workspace) -> Result<Vec<Manifest>> {
    let chart = Chart::open(workspace)?;
    let base = workspace.root().join(BASE);
    FILES
        .iter()
        .map(|file| manifest(&chart, &base, file))
        .collect()
}

fn manifest(chart: &Chart, base: &Path, file: &str) -> Result<Manifest> {
    let template = format!("templates/{file}");
    let arguments = ["--set", "helmLabels=false", "--show-only", &template];
    let printed = capture(&mut chart.template(&arguments)).context("the chart has a mistake")?;
    Ok(Manifest {
        path: base.join(file),
        text: format!("{HEAD}{}", plain(&printed)),
    })
}

/// Without what helm adds: the template's name before each document, a separator before the first, empty lines between them.
fn plain(printed: &str) -> String {
    let lines = printed
        .lines()
        .filter(|line| !line.starts_with("# Source: ") && !line.is_empty());
    let lines: Vec<&str> = lines.skip_while(|line| *line == "---").collect();
    format!("{}\n", lines.join("\n"))
}

/// Writes what has changed.
pub fn run(workspace: &Workspace) -> Result<()> {
    console::say("manifests");
    for manifest in render(workspace)? {
        let state = if manifest.is_current() {
            "current"
        } else {
            std::fs::write(&manifest.path, &manifest.text)
                .with_context(|| format!("cannot write {}", manifest.path.display()))?;
            "written"
        };
        let name = manifest.path.file_name().unwrap_or_default();
        console::step(
            &name.to_string_lossy(),
            state,
            &manifest.path.display().to_string(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helm_adds_is_left_out() {
        let printed = "---\n# Source: a/templates/b.yaml\n# why\na: 1\n\n---\n# Source: a/templates/b.yaml\nb: 2\n\n";
        assert_eq!(plain(printed), "# why\na: 1\n---\nb: 2\n");
    }
}
