//! What can be set is documented, and known to the schema.

use anyhow::{Context, Result, ensure};
use eviction_tests::suite::{Case, Outcome};
use serde_json::Value;

use crate::rendered::{chart, printed};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("helm finds nothing to complain about", lint),
        Case::new("every value has a comment and is in the schema", documented),
        Case::new("the chart installs the version that is built", version),
        Case::new("after an installation a person is told what to do", notes),
    ]
}

fn lint() -> Result<Outcome> {
    let chart = chart()?;
    let version = printed(chart.helm().args(["version", "--short"]))?;
    printed(chart.helm().args(["lint", "--strict"]).arg(&chart.folder))?;
    Ok(Outcome::Noted(format!("helm {}", version.trim())))
}

fn documented() -> Result<()> {
    let folder = chart()?.folder;
    let text = std::fs::read_to_string(folder.join("values.yaml"))?;
    let values: Value = serde_saphyr::from_str(&text)?;
    let schema = std::fs::read_to_string(folder.join("values.schema.json"))?;
    let schema: Value = serde_json::from_str(&schema)?;
    let at_the_top = text.lines().zip(text.lines().skip(1));
    for (before, line) in at_the_top {
        // What is indented further belongs to a value as a whole, as the default tolerations do.
        let is_group = line.ends_with(':') && !line.starts_with(' ');
        let key = line.split_once(':').map_or("", |(key, _)| key);
        let is_ours = !key.trim_start().starts_with(['#', '-']) && !key.is_empty();
        let is_documented = before.starts_with('#') || before.trim_start().starts_with("# ");
        let parent_speaks = ["updateStrategy", "rollingUpdate", "maxUnavailable", "type"];
        ensure!(
            !is_ours || is_group || is_documented || parent_speaks.contains(&key.trim()),
            "values.yaml: {key} has no comment"
        );
    }
    described(&values, &schema, &schema, "")
}

/// Each value, and each value in it, stands in the schema with a description.
fn described(values: &Value, schema: &Value, whole: &Value, place: &str) -> Result<()> {
    let Some(values) = values.as_object() else {
        return Ok(());
    };
    for (key, value) in values {
        let place = format!("{place}/{key}");
        let known = schema
            .pointer(&format!("/properties/{key}"))
            .with_context(|| format!("values.schema.json does not know {place}"))?;
        ensure!(
            known["description"].is_string(),
            "values.schema.json does not describe {place}"
        );
        let definition = known["$ref"]
            .as_str()
            .and_then(|path| path.strip_prefix('#'));
        let known = definition
            .and_then(|path| whole.pointer(path))
            .unwrap_or(known);
        described(value, known, whole, &place)?;
    }
    Ok(())
}

fn version() -> Result<()> {
    let text = std::fs::read_to_string(chart()?.folder.join("Chart.yaml"))?;
    let about: Value = serde_saphyr::from_str(&text)?;
    let built = env!("CARGO_PKG_VERSION");
    ensure!(
        about["appVersion"] == built,
        "Chart.yaml: appVersion is {}, the program's version is {built}",
        about["appVersion"]
    );
    Ok(())
}

fn notes() -> Result<()> {
    let chart = chart()?;
    for (given, said) in [
        (&[][..], "memory.available<200Mi"),
        (&["--set", "dryRun=true"], "it kills nobody"),
        (
            &["--set", "evictionHard.pid\\.available=10%"],
            "pid.available<10%",
        ),
        (&[], "import it on each node"),
    ] {
        let mut helm = chart.helm();
        helm.args([
            "install",
            "eviction",
            "--dry-run=client",
            "--namespace",
            "kube-system",
        ]);
        let told = printed(helm.arg(&chart.folder).args(given))?;
        let notes = told.split_once("NOTES:").context("no notes")?.1;
        ensure!(notes.contains(said), "no {said:?}: {notes}");
    }
    Ok(())
}
