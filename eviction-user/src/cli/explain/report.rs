//! What `explain` finds, as data.

use super::node::NodeFigures;
use crate::model::{
    Candidate, Criterion, Exclusion, Limit, Outcome, Resource, Signal, Snapshot, Threshold,
};
use crate::policy::rank;
use crate::policy::{Engine, distance, limit};
use serde::{Serialize, Serializer};
use std::collections::BTreeSet;

const NANOS: i128 = 1_000_000_000;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) signals: Vec<SignalRow>,
    pub(super) rankings: Vec<RankingReport>,
    pub(super) node: NodeFigures,
    pub(super) missing: Vec<String>,
}

/// A configured threshold and what is measured for it.
#[derive(Debug, Serialize)]
pub(super) struct SignalRow {
    #[serde(serialize_with = "name")]
    pub(super) signal: Signal,
    /// Where it is measured.
    pub(super) place: String,
    /// As configured.
    pub(super) limit: String,
    /// As an amount; unknown while the capacity is.
    pub(super) limit_amount: Option<i64>,
    pub(super) available: Option<i64>,
    pub(super) capacity: Option<i64>,
    /// What may still be used until it is met.
    pub(super) left: Option<i64>,
    pub(super) met: Option<bool>,
}

/// Who would go if this resource ran short.
#[derive(Debug, Serialize)]
pub(super) struct RankingReport {
    #[serde(serialize_with = "resource_name")]
    pub(super) resource: Resource,
    pub(super) signals: Vec<&'static str>,
    /// Whether one of them is met now.
    pub(super) met: bool,
    /// What is compared, first to last.
    pub(super) order: [&'static str; 4],
    pub(super) victim: Option<String>,
    pub(super) candidates: Vec<CandidateRow>,
}

#[derive(Debug, Serialize)]
pub(super) struct CandidateRow {
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) has_stats: bool,
    /// This and the next `Option`s are `None` where nobody counted.
    pub(super) exceeds_request: Option<bool>,
    pub(super) priority: i32,
    pub(super) usage: Option<i128>,
    pub(super) request: i128,
    pub(super) over_request: Option<i128>,
    pub(super) victim: bool,
    pub(super) why_not: Option<String>,
}

impl Report {
    /// `counted`: names of the workloads whose inodes somebody counts.
    pub(super) fn new(engine: &Engine, snapshot: &Snapshot, counted: &BTreeSet<&str>) -> Self {
        let observations = engine.config().settings.observe(&snapshot.summary);
        let signals: Vec<_> = engine
            .thresholds()
            .iter()
            .map(|threshold| signal_row(threshold, &observations))
            .collect();
        let mut rankings: Vec<RankingReport> = Vec::new();
        for row in &signals {
            let resource = row.signal.resource();
            let is_met = row.met == Some(true);
            // Signals of one resource rank alike where all disks are one, as on a host.
            if let Some(known) = rankings.iter_mut().find(|r| r.resource == resource) {
                known.signals.push(row.signal.name());
                known.met |= is_met;
                continue;
            }
            let ranking = engine.preview(snapshot, row.signal);
            rankings.push(RankingReport {
                resource,
                signals: vec![row.signal.name()],
                met: is_met,
                order: rank::criteria(resource).map(criterion),
                victim: ranking.victim().map(|victim| victim.pod.name.clone()),
                candidates: ranking
                    .candidates
                    .iter()
                    .map(|candidate| candidate_row(candidate, resource, counted))
                    .collect(),
            });
        }
        Self {
            signals,
            rankings,
            node: NodeFigures::of(&snapshot.summary),
            missing: Vec::new(),
        }
    }
}

fn signal_row(threshold: &Threshold, observations: &crate::model::Observations) -> SignalRow {
    let observed = observations.get(threshold.signal);
    let left = observed.and_then(|observed| distance::to_threshold(threshold, observed));
    SignalRow {
        signal: threshold.signal,
        place: String::new(),
        limit: limit_text(threshold),
        limit_amount: observed.map(|o| limit::effective(&threshold.limit, o.capacity).value()),
        available: observed.map(|o| o.available),
        capacity: observed.map(|o| o.capacity),
        left,
        met: left.map(|left| left <= 0),
    }
}

fn limit_text(threshold: &Threshold) -> String {
    let text = |limit: &Limit| match limit {
        Limit::Quantity(quantity) => quantity.to_string(),
        // The fraction is kept in 32 bits; its noise is nothing to show.
        Limit::Percentage(part) => {
            format!("{}%", (f64::from(*part) * 1e6).round() / 1e4)
        }
    };
    match &threshold.min_reclaim {
        Some(more) => format!("{} (+{} once met)", text(&threshold.limit), text(more)),
        None => text(&threshold.limit),
    }
}

fn criterion(criterion: Criterion) -> &'static str {
    match criterion {
        Criterion::MissingStats => "has no figures",
        Criterion::ExceedsRequest => "exceeds its request",
        Criterion::Priority => "lower priority",
        Criterion::OverRequest => "more above its request",
    }
}

fn candidate_row(
    candidate: &Candidate,
    resource: Resource,
    counted: &BTreeSet<&str>,
) -> CandidateRow {
    let key = &candidate.key;
    let is_known =
        key.has_stats && (resource != Resource::Inodes || counted.contains(&*candidate.pod.name));
    let is_victim = candidate.outcome == Outcome::Chosen;
    CandidateRow {
        name: candidate.pod.name.clone(),
        uid: candidate.pod.uid.to_string(),
        has_stats: key.has_stats,
        exceeds_request: is_known.then_some(key.exceeds_request),
        priority: key.priority,
        usage: is_known.then_some(key.usage),
        request: key.request_nanos / NANOS,
        over_request: is_known.then(|| key.over_request_nanos() / NANOS),
        victim: is_victim,
        why_not: match &candidate.outcome {
            Outcome::Chosen => None,
            // It may be large: nobody knows here.
            Outcome::Excluded(Exclusion::TooSmall) if !is_known => {
                Some("nobody counts what it uses".to_owned())
            }
            outcome => Some(outcome.to_string()),
        },
    }
}

fn name<S: Serializer>(signal: &Signal, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(signal.name())
}

fn resource_name<S: Serializer>(resource: &Resource, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(resource.name())
}

#[cfg(test)]
mod tests {
    use super::super::text;
    use super::*;
    use crate::model::{
        ContainerStats, FsLayout, FsStats, MemoryStats, ObservedPod, Pod, PodStats, Protection,
        Quantity, Summary, Timestamp, Uid,
    };
    use crate::policy::EngineConfig;
    use std::sync::Arc;

    const MIB: u64 = 1 << 20;

    fn pod(
        name: &str,
        used: Option<u64>,
        inodes: u64,
        change: impl FnOnce(&mut Pod),
    ) -> ObservedPod {
        let mut pod = Pod::workload(Uid::new(name), name, 64 * MIB as i64);
        change(&mut pod);
        let stats = used.map(|used| PodStats {
            memory: Some(MemoryStats {
                working_set: Some(used * MIB),
                ..MemoryStats::default()
            }),
            containers: vec![ContainerStats {
                rootfs: Some(FsStats {
                    inodes_used: Some(inodes),
                    ..FsStats::default()
                }),
                ..ContainerStats::default()
            }],
            ..PodStats::default()
        });
        ObservedPod {
            pod: Arc::new(pod),
            stats,
        }
    }

    fn snapshot(pods: Vec<ObservedPod>) -> Snapshot {
        Snapshot {
            taken: Timestamp::from_secs(1),
            summary: Summary {
                memory: Some(MemoryStats {
                    available: Some(300 * MIB),
                    working_set: Some(700 * MIB),
                    ..MemoryStats::default()
                }),
                nodefs: Some(FsStats {
                    inodes: Some(1_000),
                    inodes_free: Some(40),
                    ..FsStats::default()
                }),
                memory_stall_percent: Some(2.5),
                dying_cgroups: Some(41),
                reclaimable_cache: Some(30 * MIB),
                ..Summary::default()
            },
            pods,
            layout: Some(FsLayout::default()),
        }
    }

    fn engine() -> Engine {
        let quantity = |text: &str| Limit::Quantity(text.parse::<Quantity>().unwrap());
        let mut config = EngineConfig::with_thresholds(vec![
            Threshold {
                min_reclaim: Some(quantity("50Mi")),
                ..Threshold::hard(Signal::MemoryAvailable, quantity("100Mi"))
            },
            Threshold::hard(Signal::AllocatableMemoryAvailable, quantity("1Gi")),
            Threshold::hard(Signal::NodeFsInodesFree, Limit::Percentage(0.05)),
        ]);
        config.additions.min_victim_size.inodes = Some(1);
        Engine::new(config)
    }

    fn report() -> Report {
        let pods = vec![
            pod("within", Some(32), 5, |_| {}),
            pod("ours", Some(900), 900, |pod| {
                pod.protection = Some(Protection::OwnPod)
            }),
            pod("important", Some(500), 0, |pod| pod.priority = Some(10)),
            pod("hog", Some(400), 70, |_| {}),
        ];
        let counted = ["within", "hog", "ours"].into();
        Report::new(&engine(), &snapshot(pods), &counted)
    }

    #[test]
    fn each_signal_has_its_figures_and_a_verdict() {
        let report = report();
        let [memory, allocatable, inodes] = report.signals.as_slice() else {
            panic!("{report:?}")
        };
        assert_eq!(memory.limit, "100Mi (+50Mi once met)");
        assert_eq!(memory.left, Some((200 * MIB) as i64 + 1));
        assert_eq!(memory.met, Some(false));
        assert_eq!((allocatable.available, allocatable.met), (None, None));
        assert_eq!(
            (inodes.limit.as_str(), inodes.limit_amount),
            ("5%", Some(50))
        );
        assert_eq!((inodes.left, inodes.met), (Some(-9), Some(true)));
    }

    #[test]
    fn case_27_every_candidate_is_there_with_its_keys_and_why_it_lost() {
        let report = report();
        let [memory, inodes] = report.rankings.as_slice() else {
            panic!("{report:?}")
        };
        assert_eq!(
            memory.signals,
            ["memory.available", "allocatableMemory.available"]
        );
        assert_eq!((memory.victim.as_deref(), memory.met), (Some("hog"), false));
        let rows: Vec<_> = memory
            .candidates
            .iter()
            .map(|c| (c.name.as_str(), c.why_not.as_deref()))
            .collect();
        assert_eq!(
            rows,
            [
                ("ours", Some("our own pod")),
                ("hog", None),
                ("important", Some("has a higher priority")),
                (
                    "within",
                    Some("within its request, the victim exceeds its own")
                ),
            ]
        );
        let hog = &memory.candidates[1];
        assert_eq!(hog.over_request, Some(i128::from(336 * MIB)));
        assert!(hog.exceeds_request == Some(true) && hog.victim);
        assert_eq!((inodes.victim.as_deref(), inodes.met), (Some("hog"), true));
        let uncounted = inodes.candidates.iter().find(|c| c.name == "important");
        let uncounted = uncounted.unwrap();
        assert_eq!((uncounted.usage, uncounted.exceeds_request), (None, None));
        assert_eq!(
            uncounted.why_not.as_deref(),
            Some("nobody counts what it uses")
        );
    }

    #[test]
    fn the_page_fits_a_hundred_columns_and_says_it_all() {
        let mut report = report();
        report.missing =
            vec!["the inode use of important is unknown: ".to_owned() + &"x ".repeat(90)];
        let page = text::page(&report);
        assert!(
            page.lines().all(|line| line.chars().count() <= 100),
            "{page}"
        );
        for said in [
            "not measured",
            "MET",
            "memory: enough for now; hog would go first",
            "inodes: short; hog goes first",
            "our own pod",
            "has a higher",
            "unknown",
            "missing",
            "2.5 % of 10 s  30.0 MiB           unknown    41",
        ] {
            assert!(page.contains(said), "{said} is not in\n{page}");
        }
    }

    #[test]
    fn without_workloads_it_says_so() {
        let report = Report::new(&engine(), &snapshot(Vec::new()), &BTreeSet::new());
        assert!(text::page(&report).contains("memory: enough for now; there are no workloads"));
    }

    #[test]
    fn as_json_it_has_the_same_names_and_numbers() {
        let json = serde_json::to_string(&report()).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["signals"][0]["signal"], "memory.available");
        assert_eq!(json["node"]["dying_cgroups"], 41, "case 18");
        assert_eq!(json["node"]["swap_free"], serde_json::Value::Null);
        assert_eq!(json["rankings"][0]["resource"], "memory");
        assert_eq!(
            json["rankings"][0]["candidates"][1]["over_request"],
            336 * MIB
        );
        assert_eq!(
            json["rankings"][1]["candidates"][3]["usage"],
            serde_json::Value::Null
        );
    }
}
