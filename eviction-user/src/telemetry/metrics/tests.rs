//! Real entries in, lines out.

use super::*;
use crate::model::{
    Action, Condition, Eviction, EvictionCause, KillGrace, Limit, Observation, Pod, Ranking,
    ReclaimCall, Resource, Signal, Threshold, Timestamp, Uid,
};
use crate::ports::{
    Entry, KillReport, LadderStep, OomMismatch, OomVictim, PressureEvent, ReclaimBy, ReclaimEnd,
    ReclaimOrder, ReclaimReport, SilentHook, Started, Wake,
};
use std::time::Duration;

mod alerts;
mod moved;

const MEMORY: Signal = Signal::AllocatableMemoryAvailable;

struct Told {
    metrics: Metrics,
    counting: Counting,
    vitals: Arc<Vitals>,
}

impl Told {
    fn watching(watched: &[Signal]) -> Self {
        let vitals = Arc::new(Vitals::new(Timestamp::from_secs(0)));
        let (metrics, counting) = metrics(Arc::clone(&vitals), watched.to_vec(), Vec::new());
        Self {
            metrics,
            counting,
            vitals,
        }
    }

    fn take(&mut self, entries: &[Entry]) {
        entries.iter().for_each(|entry| self.counting.take(entry));
    }

    /// All lines of one family: comments, and samples whatever their suffix.
    fn lines(&self, family: &str) -> Vec<String> {
        let is_of = |line: &&str| {
            let name = line
                .trim_start_matches("# ")
                .trim_start_matches(|c: char| c.is_uppercase());
            let rest = name.trim_start().strip_prefix(family);
            rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
        };
        let text = self.metrics.text().unwrap();
        text.lines().filter(is_of).map(str::to_owned).collect()
    }

    /// The samples of one family that are not 0, in order: series have none of their own.
    fn counted(&self, family: &str) -> Vec<String> {
        let mut lines = self.lines(family);
        lines.retain(|line| !line.starts_with('#') && !line.ends_with(" 0"));
        lines.sort();
        lines
    }
}

fn micros(us: i64) -> Timestamp {
    Timestamp::from_nanos(1_000_000_000 + us * 1000)
}

fn event() -> PressureEvent {
    PressureEvent {
        time: micros(0),
        signal: MEMORY,
        cgroup: 7,
        amount: 1,
        pid: 1,
        while_arming: false,
        rung: "fentry/a",
    }
}

fn ranking(resource: Resource) -> Box<Ranking> {
    Box::new(Ranking {
        resource,
        candidates: Vec::new(),
    })
}

fn decision(id: u64, dry_run: bool) -> Entry {
    let observed = Observation {
        available: 1,
        capacity: 2,
        time: Some(micros(30)),
    };
    let cause = EvictionCause::Pressure {
        resource: Resource::Memory,
        threshold: Threshold::hard(MEMORY, Limit::Quantity("64Mi".parse().unwrap())),
        observed: Some(observed),
        ranking: ranking(Resource::Memory),
    };
    Entry::Decision {
        id,
        decided: micros(130),
        wake: Wake::Event(event()),
        looked: micros(90),
        dry_run,
        processes: None,
        eviction: Box::new(Eviction {
            pod: Arc::new(Pod::workload(Uid::new("1"), "hog", 0)),
            grace: KillGrace(0),
            message: String::new(),
            annotations: Vec::new(),
            disruption_condition: false,
            cause,
        }),
    }
}

fn report(done: Timestamp) -> KillReport {
    KillReport {
        done,
        method: "cgroup.kill",
        processes: 3,
    }
}

fn kill(id: u64, wake: Wake, done: Timestamp) -> Entry {
    Entry::Kill {
        id,
        uid: Uid::new("1"),
        report: report(done),
        wake,
    }
}

fn started() -> Entry {
    let step = |name, places, why_not: Option<&str>| LadderStep {
        family: "memory",
        resource: Some(Resource::Memory),
        name,
        places,
        why_not: why_not.map(str::to_owned),
    };
    Entry::Started {
        at: micros(0),
        how: Started {
            sources: vec![("memory", "kprobe/a"), ("inodes", "timer")],
            notes: Vec::new(),
            ladder: vec![
                step("fentry/a", 0, Some("the kernel said \"no\"")),
                step("kprobe/a", 2, None),
                step("raw_tp/b", 0, Some("a better one is in use")),
            ],
            metrics: None,
        },
    }
}

#[test]
fn the_ladder_shows_what_is_used_and_why_the_rest_is_not() {
    let mut told = Told::watching(&[MEMORY, Signal::PidAvailable]);
    told.take(&[started()]);
    let mut ladder = told.lines("eviction_ladder").split_off(2);
    ladder.sort();
    assert_eq!(
        ladder,
        [
            r#"eviction_ladder{family="memory",rung="fentry/a",used="false",why_not="the kernel said \"no\""} 0"#,
            r#"eviction_ladder{family="memory",rung="kprobe/a",used="true",why_not=""} 2"#,
            r#"eviction_ladder{family="memory",rung="raw_tp/b",used="false",why_not="a better one is in use"} 0"#,
        ]
    );
    let source = told.counted("eviction_source");
    assert_eq!(
        source,
        [
            r#"eviction_source{family="inodes",source="timer"} 1"#,
            r#"eviction_source{family="memory",source="kprobe/a"} 1"#,
        ]
    );
    assert!(told.metrics.health.started().is_some());
}

#[test]
fn every_series_whose_labels_are_known_begins_at_zero() {
    let mut told = Told::watching(&[MEMORY, Signal::NodeFsInodesFree]);
    told.take(&[started()]);
    let text = told.metrics.text().unwrap();
    for line in [
        r#"eviction_build_info{version="0.1.0"} 1"#,
        r#"eviction_evictions_total{signal="allocatableMemory.available",outcome="killed"} 0"#,
        r#"eviction_evictions_total{signal="nodefs.inodesFree",outcome="dry_run"} 0"#,
        r#"eviction_no_candidate_total{resource="inodes"} 0"#,
        r#"eviction_reclaims_total{signal="nodefs.inodesFree",outcome="in_vain"} 0"#,
        r#"eviction_condition{condition="PIDPressure"} 0"#,
        r#"eviction_events_total{rung="kprobe/a",signal="allocatableMemory.available"} 0"#,
        r#"eviction_hook_silent_total{signal="allocatableMemory.available",rung="kprobe/a"} 0"#,
        r#"eviction_kill_seconds_count{since="event"} 0"#,
        "eviction_notify_seconds_count 0",
        "eviction_events_lost_total 0",
        "eviction_looks_failed_total 0",
        "eviction_records_dropped_total 0",
        "eviction_victims_leaving 0",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    assert!(!text.contains("pid.available"), "nobody watches it");
}

#[test]
fn an_eviction_is_counted_by_its_signal_and_timed_from_its_event() {
    let mut told = Told::watching(&[MEMORY]);
    told.take(&[
        Entry::Event {
            event: event(),
            received: micros(20),
        },
        decision(1, false),
        kill(1, Wake::Event(event()), micros(400)),
        Entry::Gone {
            id: 1,
            uid: Uid::new("1"),
            at: micros(5000),
            after: Duration::from_millis(5),
        },
    ]);
    assert_eq!(
        told.counted("eviction_evictions"),
        [r#"eviction_evictions_total{signal="allocatableMemory.available",outcome="killed"} 1"#]
    );
    let sum = |family: &str| told.counted(&format!("{family}_seconds_sum"));
    assert_eq!(
        sum("eviction_notify"),
        ["eviction_notify_seconds_sum 0.00002"]
    );
    assert_eq!(
        sum("eviction_decision"),
        ["eviction_decision_seconds_sum 0.00004"]
    );
    assert_eq!(
        sum("eviction_sample_age"),
        ["eviction_sample_age_seconds_sum 0.0001"],
        "the signal was read before the look as a whole was done"
    );
    let kills = told.lines("eviction_kill_seconds_bucket");
    let id = crate::ports::record_id(1);
    let wanted = format!(
        r#"eviction_kill_seconds_bucket{{le="0.0005",since="event"}} 1 # {{record_id="{id}"}} 0.0004 "#
    );
    assert!(
        kills.iter().any(|line| line.starts_with(&wanted)),
        "{wanted} is not in {kills:?}"
    );
}

#[test]
fn a_kill_that_no_event_led_to_is_timed_from_the_look() {
    let mut told = Told::watching(&[MEMORY]);
    told.take(&[decision(1, false), kill(1, Wake::Heartbeat, micros(400))]);
    assert_eq!(
        told.counted("eviction_kill_seconds_count"),
        [r#"eviction_kill_seconds_count{since="look"} 1"#]
    );
    assert_eq!(
        told.counted("eviction_kill_seconds_sum"),
        [
            r#"eviction_kill_seconds_sum{since="event"} 0.0"#,
            r#"eviction_kill_seconds_sum{since="look"} 0.00031"#
        ]
    );
}

#[test]
fn who_was_asked_first_counts_twice_and_its_grace_is_no_time_of_ours() {
    let mut told = Told::watching(&[MEMORY]);
    let asked = Entry::Asked {
        id: 1,
        uid: Uid::new("1"),
        report: report(micros(300)),
        grace: Duration::from_secs(30),
    };
    told.take(&[
        decision(1, false),
        asked,
        kill(1, Wake::Interval, micros(30_000_000)),
    ]);
    let counted = told.counted("eviction_evictions");
    assert_eq!(
        counted,
        [
            r#"eviction_evictions_total{signal="allocatableMemory.available",outcome="asked"} 1"#,
            r#"eviction_evictions_total{signal="allocatableMemory.available",outcome="killed"} 1"#,
        ]
    );
    assert!(told.counted("eviction_kill_seconds_count").is_empty());
}

#[test]
fn a_failed_kill_a_dry_run_and_a_victim_from_before_the_restart_are_told_apart() {
    let mut told = Told::watching(&[MEMORY]);
    let failed = Entry::KillFailed {
        id: 1,
        uid: Uid::new("1"),
        reason: "permission denied".into(),
    };
    told.take(&[
        decision(1, false),
        failed,
        decision(2, true),
        kill(9, Wake::Interval, micros(400)),
    ]);
    let counted = told.counted("eviction_evictions");
    assert_eq!(
        counted,
        [
            r#"eviction_evictions_total{signal="allocatableMemory.available",outcome="dry_run"} 1"#,
            r#"eviction_evictions_total{signal="allocatableMemory.available",outcome="failed"} 1"#,
            r#"eviction_evictions_total{signal="unknown",outcome="killed"} 1"#,
        ]
    );
}

#[test]
fn conditions_come_and_go() {
    let mut told = Told::watching(&[MEMORY]);
    let conditions = |hold: &[Condition]| Entry::Engine {
        at: micros(0),
        action: Action::Conditions(hold.to_vec()),
    };
    told.take(&[conditions(&[Condition::MemoryPressure])]);
    assert_eq!(
        told.counted("eviction_condition"),
        [r#"eviction_condition{condition="MemoryPressure"} 1"#]
    );
    told.take(&[conditions(&[])]);
    assert!(told.counted("eviction_condition").is_empty());
}

#[test]
fn losses_are_counted() {
    let mut told = Told::watching(&[MEMORY]);
    let victim = OomVictim {
        time: micros(0),
        pid: 1,
        cgroup: 7,
    };
    let mismatch = OomMismatch {
        cgroup: 7,
        counted: 2,
        seen: 1,
    };
    let hook = SilentHook {
        signal: MEMORY,
        rung: "fentry/a",
        unseen: 1 << 30,
    };
    told.take(&[
        Entry::EventsLost { count: 3 },
        Entry::EventLate {
            event: event(),
            received: micros(1_000_000),
        },
        Entry::CountsForgotten { count: 4 },
        Entry::RecordsDropped { count: 5 },
        Entry::OomKill { victim },
        Entry::OomMismatch { mismatch },
        Entry::HookSilent {
            at: micros(0),
            hook,
        },
        Entry::NoCandidate {
            at: micros(0),
            ranking: ranking(Resource::Memory),
        },
    ]);
    for (family, line) in [
        ("eviction_events_lost", "eviction_events_lost_total 3"),
        ("eviction_events_late", "eviction_events_late_total 1"),
        (
            "eviction_counts_forgotten",
            "eviction_counts_forgotten_total 4",
        ),
        (
            "eviction_records_dropped",
            "eviction_records_dropped_total 5",
        ),
        ("eviction_oom_kills", "eviction_oom_kills_total 1"),
        ("eviction_oom_mismatches", "eviction_oom_mismatches_total 1"),
        (
            "eviction_hook_silent",
            r#"eviction_hook_silent_total{signal="allocatableMemory.available",rung="fentry/a"} 1"#,
        ),
        (
            "eviction_no_candidate",
            r#"eviction_no_candidate_total{resource="memory"} 1"#,
        ),
    ] {
        assert_eq!(told.counted(family), [line]);
    }
}

#[test]
fn reclaims_are_counted_by_how_they_went() {
    let signal = Signal::NodeFsAvailable;
    let mut told = Told::watching(&[signal]);
    let reclaimed = |end, rest: Option<u64>| Entry::Reclaimed {
        at: micros(0),
        signal,
        dry_run: false,
        report: ReclaimReport {
            took: Duration::from_secs(1),
            end,
            removed: None,
        },
        freed: None,
        rest: rest.map(Duration::from_secs),
    };
    let begun = |dry_run| Entry::Reclaim {
        at: micros(0),
        order: ReclaimOrder {
            signal,
            calls: ReclaimCall::BOTH,
            dry_run,
        },
        by: ReclaimBy::Command,
    };
    told.take(&[
        begun(false),
        reclaimed(ReclaimEnd::Exited(0), None),
        reclaimed(ReclaimEnd::Exited(0), Some(60)),
        reclaimed(ReclaimEnd::Exited(1), Some(60)),
        reclaimed(ReclaimEnd::Signalled(9), Some(60)),
        reclaimed(ReclaimEnd::TimedOut(Duration::from_secs(9)), Some(60)),
        reclaimed(ReclaimEnd::NotRun("no".into()), Some(60)),
        begun(true),
    ]);
    let counted = told.counted("eviction_reclaims");
    let line = |outcome, count| {
        format!(
            r#"eviction_reclaims_total{{signal="nodefs.available",outcome="{outcome}"}} {count}"#
        )
    };
    assert_eq!(
        counted,
        [
            line("done", 1),
            line("dry_run", 1),
            line("failed", 2),
            line("in_vain", 1),
            line("not_run", 1),
            line("timed_out", 1),
        ]
    );
}

#[test]
fn what_the_loop_says_of_itself_is_read_when_somebody_asks() {
    let told = Told::watching(&[MEMORY]);
    assert!(told.lines("eviction_last_turn").is_empty(), "never yet");
    told.vitals.heard("fentry/a", MEMORY);
    told.vitals.looked();
    told.vitals.look_failed();
    let mut left = [None; Signal::ALL.len()];
    left[MEMORY.index()] = Some(-4096);
    let now = crate::sys::clock::now();
    let turned = Turned {
        wait: Duration::from_secs(1),
        blind: false,
        left,
        leaving: 2,
    };
    told.vitals.turned(now, &turned);
    assert_eq!(
        told.lines("eviction_left"),
        [
            "# HELP eviction_left Left to the nearest line when the loop last looked: bytes, inodes or tasks; negative past it.",
            "# TYPE eviction_left gauge",
            r#"eviction_left{signal="allocatableMemory.available"} -4096"#,
        ]
    );
    assert_eq!(
        told.counted("eviction_events"),
        [r#"eviction_events_total{rung="fentry/a",signal="allocatableMemory.available"} 1"#]
    );
    assert_eq!(
        told.counted("eviction_victims_leaving"),
        ["eviction_victims_leaving 2"]
    );
    assert_eq!(
        told.counted("eviction_looks"),
        ["eviction_looks_failed_total 1", "eviction_looks_total 1"]
    );
    let turned = told.counted("eviction_last_turn_timestamp_seconds");
    let unix: f64 = turned[0].split(' ').nth(1).unwrap().parse().unwrap();
    let now = std::time::SystemTime::now();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!((now.as_secs_f64() - unix).abs() < 5.0, "{unix}");
}
