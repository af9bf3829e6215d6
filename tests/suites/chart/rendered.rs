//! What helm makes of the chart and some values, as data.

use std::io::Write;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::NamedTempFile;
use xtask::manifests::Chart;
use xtask::workspace::Workspace;

pub(crate) fn chart() -> Result<Chart> {
    Chart::open(&Workspace::find()?)
}

/// What `helm template` answers. A file of values, because keys with dots in them cannot be said plainly on the command line.
pub(crate) fn answer(chart: &Chart, values: &Value) -> Result<Output> {
    let mut file = NamedTempFile::new()?;
    file.write_all(values.to_string().as_bytes())?;
    let path = file.path().to_str().context("not UTF-8")?;
    Ok(chart.template(&["--values", path]).output()?)
}

pub(crate) fn render(chart: &Chart, values: &Value) -> Result<Objects> {
    let answer = answer(chart, values)?;
    ensure!(
        answer.status.success(),
        "helm refuses {values}: {}",
        String::from_utf8_lossy(&answer.stderr)
    );
    Objects::parse(&String::from_utf8(answer.stdout)?)
}

/// What a command prints, which has to succeed.
pub(crate) fn printed(command: &mut Command) -> Result<String> {
    let answer = command.output()?;
    ensure!(
        answer.status.success(),
        "{command:?}: {}{}",
        String::from_utf8_lossy(&answer.stdout),
        String::from_utf8_lossy(&answer.stderr)
    );
    Ok(String::from_utf8(answer.stdout)?)
}

/// Of one cluster: each has another kind, so it is known by that.
#[derive(Debug)]
pub(crate) struct Objects(Vec<Value>);

impl Objects {
    /// In the order of their kinds, whatever order they were written in.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut objects: Vec<Value> = serde_saphyr::from_multiple(text)?;
        objects.retain(|object| !object.is_null());
        objects.sort_by_key(|object| object["kind"].to_string());
        Ok(Self(objects))
    }

    pub(crate) fn find(&self, kind: &str) -> Option<&Value> {
        self.0.iter().find(|object| object["kind"] == kind)
    }

    pub(crate) fn get(&self, kind: &str) -> Result<&Value> {
        self.find(kind)
            .with_context(|| format!("there is no {kind}"))
    }

    /// Of the DaemonSet.
    pub(crate) fn pod(&self) -> Result<&Value> {
        Ok(&self.get("DaemonSet")?["spec"]["template"])
    }

    pub(crate) fn container(&self) -> Result<&Value> {
        Ok(&self.pod()?["spec"]["containers"][0])
    }

    pub(crate) fn arguments(&self) -> Result<Vec<&str>> {
        let list = self.container()?["args"].as_array();
        let list = list.context("the container has no arguments")?;
        list.iter()
            .map(|argument| argument.as_str().context("an argument is no text"))
            .collect()
    }

    /// The first object that is not the same in both.
    pub(crate) fn difference<'a>(
        &'a self,
        other: &'a Self,
    ) -> Option<(Option<&'a Value>, Option<&'a Value>)> {
        let longest = self.0.len().max(other.0.len());
        let mut pairs = (0..longest).map(|at| (self.0.get(at), other.0.get(at)));
        pairs.find(|(own, others)| own != others)
    }

    /// Takes a label off all objects.
    pub(crate) fn without_label(mut self, label: &str) -> Self {
        for object in &mut self.0 {
            if let Some(labels) = object["metadata"]["labels"].as_object_mut() {
                labels.remove(label);
            }
        }
        self
    }
}
