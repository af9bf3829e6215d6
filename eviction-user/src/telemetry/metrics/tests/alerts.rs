//! The alerts of the chart are about what there is.

use super::*;

const RULES: &str = include_str!("../../../../deploy/chart/templates/prometheusrule.yaml");

#[test]
fn every_metric_of_the_charts_alerts_is_one_of_ours() {
    let mut told = Told::watching(&[MEMORY]);
    told.take(&[started()]);
    told.vitals
        .turned(Timestamp::from_secs(1), &Turned::default());
    let mut asked = 0;
    let expressions = RULES.lines().filter(|line| line.contains("expr: "));
    for expression in expressions.filter(|line| !line.contains("kube_daemonset")) {
        let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut words = expression.split(|c: char| !is_of_a_name(c));
        let name = words.find(|word| word.starts_with("eviction_"));
        let name = name.unwrap_or_else(|| panic!("no metric of ours: {expression}"));
        let family = name.strip_suffix("_total").unwrap_or(name);
        let lines = told.lines(family);
        let kind = if family == name { "gauge" } else { "counter" };
        let is_told = lines.contains(&format!("# TYPE {family} {kind}"));
        assert!(is_told, "there is no {kind} {family}: {lines:?}");
        asked += 1;
    }
    assert!(asked >= 7, "{asked}");
}
