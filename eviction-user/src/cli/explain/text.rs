//! The report for people, at most 100 columns wide.

use super::super::table::table;
use super::node::NodeFigures;
use super::report::{CandidateRow, RankingReport, Report, SignalRow};
use crate::model::Resource;
use bytesize::ByteSize;

pub(super) fn page(report: &Report) -> String {
    let header = [
        "signal",
        "limit",
        "available",
        "of",
        "left",
        "state",
        "where",
    ];
    let mut parts = vec![table(&header, report.signals.iter().map(signal))];
    parts.push(table(&NodeFigures::HEADER, [report.node.row()]));
    for ranking in &report.rankings {
        parts.push(headline(ranking));
        if !ranking.candidates.is_empty() {
            let rows = ranking.candidates.iter().enumerate();
            let rows = rows.map(|(place, row)| candidate(place + 1, row, ranking.resource));
            parts.push(table(
                &[
                    "workload", "#", "figures", "exceeds", "priority", "uses", "request", "above",
                    "verdict",
                ],
                rows,
            ));
            parts.extend(disk_parts(ranking));
            parts.push(format!(
                "compared, first to last: {}",
                ranking.order.join(", ")
            ));
        }
    }
    if !report.missing.is_empty() {
        let rows = report.missing.iter().map(|text| vec![text.clone()]);
        parts.push(table(&["missing"], rows));
    }
    parts.join("\n\n")
}

/// Where the figures of a disk ranking come from, and how old they are.
fn disk_parts(ranking: &RankingReport) -> Option<String> {
    let rows = ranking.candidates.iter().flat_map(|candidate| {
        let parts = candidate.disk.iter();
        let texts = parts.filter_map(|part| part.text(ranking.resource));
        texts.map(|text| vec![candidate.name.clone(), text])
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then(|| table(&["workload", "where its use comes from"], rows))
}

fn signal(row: &SignalRow) -> Vec<String> {
    let resource = row.signal.resource();
    let figure =
        |value: Option<i64>| value.map_or("-".to_owned(), |value| amount(value.into(), resource));
    // A percentage says little without the amount that it stands for.
    let limit = match row.limit_amount {
        Some(limit) if row.limit.contains('%') => {
            format!("{} = {}", row.limit, amount(limit.into(), resource))
        }
        _ => row.limit.clone(),
    };
    let state = match row.met {
        Some(true) => "MET",
        Some(false) => "ok",
        None => "not measured",
    };
    vec![
        row.signal.name().to_owned(),
        limit,
        figure(row.available),
        figure(row.capacity),
        figure(row.left),
        state.to_owned(),
        row.place.clone(),
    ]
}

fn headline(ranking: &RankingReport) -> String {
    let state = if ranking.met {
        "short"
    } else {
        "enough for now"
    };
    let who = match (&ranking.victim, ranking.candidates.is_empty(), ranking.met) {
        (Some(victim), _, true) => format!("{victim} goes first"),
        (Some(victim), _, false) => format!("{victim} would go first"),
        (None, true, _) => "there are no workloads".to_owned(),
        (None, false, _) => "nobody may be evicted".to_owned(),
    };
    format!("{}: {state}; {who}", ranking.resource)
}

fn candidate(place: usize, row: &CandidateRow, resource: Resource) -> Vec<String> {
    let yes_no = |value: bool| if value { "yes" } else { "no" }.to_owned();
    let figure =
        |value: Option<i128>| value.map_or("unknown".to_owned(), |value| amount(value, resource));
    let verdict = row.why_not.clone();
    vec![
        row.name.clone(),
        place.to_string(),
        yes_no(row.has_stats),
        row.exceeds_request.map_or("unknown".to_owned(), yes_no),
        row.priority.to_string(),
        figure(row.usage),
        amount(row.request, resource),
        figure(row.over_request),
        verdict.map_or("goes first".to_owned(), |why| format!("not: {why}")),
    ]
}

fn amount(value: i128, resource: Resource) -> String {
    match resource {
        Resource::Memory | Resource::EphemeralStorage => {
            let size = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
            let sign = if value < 0 { "-" } else { "" };
            format!("{sign}{}", ByteSize::b(size))
        }
        Resource::Inodes | Resource::Pids => value.to_string(),
    }
}
