//! The metric families that are fed by entries: names, labels, help, and what exists from the start.

use super::removed::RemovedCounts;
use super::text::escaped;
use crate::model::{Condition, Resource, Signal};
use crate::ports::{Removed, Started};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::exemplar::HistogramWithExemplars;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// Upper bounds in seconds: an event is received within some 10 us, and 5 s is beyond any good.
const BUCKETS: [f64; 18] = [
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0,
];

/// What was done to victims.
pub(super) const KILLED: &str = "killed";
pub(super) const ASKED: &str = "asked";
pub(super) const REFUSED: &str = "refused";
pub(super) const BYPASSED: &str = "bypassed";
pub(super) const FAILED: &str = "failed";
pub(super) const DRY_RUN: &str = "dry_run";
const OUTCOMES: [&str; 6] = [KILLED, ASKED, REFUSED, BYPASSED, FAILED, DRY_RUN];

/// How reclaims went.
pub(super) const DONE: &str = "done";
pub(super) const IN_VAIN: &str = "in_vain";
pub(super) const TIMED_OUT: &str = "timed_out";
pub(super) const NOT_RUN: &str = "not_run";
const RECLAIM_OUTCOMES: [&str; 6] = [DONE, IN_VAIN, FAILED, TIMED_OUT, NOT_RUN, DRY_RUN];

/// From when a kill is timed.
pub(super) const EVENT: &str = "event";
pub(super) const LOOK: &str = "look";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Step {
    family: &'static str,
    rung: &'static str,
    used: &'static str,
    why_not: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Source {
    family: &'static str,
    source: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Of {
    pub(super) signal: &'static str,
    pub(super) outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Short {
    pub(super) resource: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Reported {
    pub(super) condition: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Hook {
    pub(super) signal: &'static str,
    pub(super) rung: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Since {
    pub(super) since: &'static str,
}

/// The id of the records of one eviction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Record {
    pub(super) record_id: String,
}

type Kills = HistogramWithExemplars<Record>;

#[derive(Clone, Debug)]
pub(super) struct Families {
    ladder: Family<Step, Gauge>,
    source: Family<Source, Gauge>,
    pub(super) notify: Histogram,
    pub(super) decision: Histogram,
    pub(super) sample_age: Histogram,
    pub(super) kill: Family<Since, Kills, fn() -> Kills>,
    pub(super) evictions: Family<Of, Counter>,
    pub(super) no_candidate: Family<Short, Counter>,
    pub(super) condition: Family<Reported, Gauge>,
    pub(super) reclaims: Family<Of, Counter>,
    pub(super) removed: RemovedCounts,
    pub(super) moved: Family<Hook, Gauge>,
    pub(super) hook_silent: Family<Hook, Counter>,
    pub(super) events_lost: Counter,
    pub(super) events_late: Counter,
    pub(super) counts_forgotten: Counter,
    pub(super) records_dropped: Counter,
    pub(super) oom_kills: Counter,
    pub(super) oom_mismatches: Counter,
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Families {
    /// `watched`: the signals that have a threshold.
    pub(super) fn new(watched: &[Signal]) -> Self {
        let families = Self {
            ladder: Family::default(),
            source: Family::default(),
            notify: histogram(),
            decision: histogram(),
            sample_age: histogram(),
            kill: Family::new_with_constructor(|| Kills::new(BUCKETS.into_iter())),
            evictions: Family::default(),
            no_candidate: Family::default(),
            condition: Family::default(),
            reclaims: Family::default(),
            removed: RemovedCounts::default(),
            moved: Family::default(),
            hook_silent: Family::default(),
            events_lost: Counter::default(),
            events_late: Counter::default(),
            counts_forgotten: Counter::default(),
            records_dropped: Counter::default(),
            oom_kills: Counter::default(),
            oom_mismatches: Counter::default(),
        };
        families.begin_at_zero(watched);
        families
    }

    /// A series that appears only with its first count has no rate there.
    fn begin_at_zero(&self, watched: &[Signal]) {
        for since in [EVENT, LOOK] {
            drop(self.kill.get_or_create(&Since { since }));
        }
        for condition in Condition::ALL.map(Condition::name) {
            drop(self.condition.get_or_create(&Reported { condition }));
        }
        for watched in watched {
            let signal = watched.name();
            for outcome in OUTCOMES {
                drop(self.evictions.get_or_create(&Of { signal, outcome }));
            }
            let resource = watched.resource();
            let short = Short {
                resource: resource.name(),
            };
            drop(self.no_candidate.get_or_create(&short));
            // Nothing is to be freed for the others.
            if matches!(resource, Resource::EphemeralStorage | Resource::Inodes) {
                self.removed.add(Removed::default());
                for outcome in RECLAIM_OUTCOMES {
                    drop(self.reclaims.get_or_create(&Of { signal, outcome }));
                }
            }
        }
    }

    /// Takes in how events come about. `hooks`: the rungs in use, each with a signal that it speaks for.
    pub(super) fn started(&self, how: &Started, hooks: &[(&'static str, Signal)]) {
        for (family, source) in &how.sources {
            self.source.get_or_create(&Source { family, source }).set(1);
        }
        for step in &how.ladder {
            let labels = Step {
                family: step.family,
                rung: step.name,
                used: if step.is_used() { "true" } else { "false" },
                why_not: escaped(step.why_not.as_deref().unwrap_or_default()),
            };
            let places = i64::try_from(step.places).unwrap_or(i64::MAX);
            self.ladder.get_or_create(&labels).set(places);
        }
        for (rung, signal) in hooks {
            let signal = signal.name();
            drop(self.hook_silent.get_or_create(&Hook { signal, rung }));
        }
    }

    /// Names and help, in the order in which they are read.
    pub(super) fn register(&self, registry: &mut Registry) {
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program that runs", build);
        registry.register(
            "ladder",
            "At how many places the kernel is hooked for a rung, best first; 0: it is not used, and why not",
            self.ladder.clone(),
        );
        registry.register(
            "source",
            "Where a family's events come from; timer or interval: there are none",
            self.source.clone(),
        );
        registry.register(
            "moved",
            "Which rung (or the timer) tells of a signal whose path leads to another file system than at the start",
            self.moved.clone(),
        );
        self.register_times(registry);
        registry.register(
            "evictions",
            "What was done to victims: asked to leave (a soft threshold, or --hard-policy), killed, failed to kill; refused: by the Eviction API; bypassed: to be killed without its answer; dry_run: would have been",
            self.evictions.clone(),
        );
        registry.register(
            "no_candidate",
            "Short of this, and nobody could be evicted",
            self.no_candidate.clone(),
        );
        registry.register(
            "condition",
            "Whether the node condition holds",
            self.condition.clone(),
        );
        registry.register(
            "reclaims",
            "Node-level reclaims; in_vain: it ended well and freed nothing",
            self.reclaims.clone(),
        );
        self.removed.register(registry);
        self.register_losses(registry);
    }

    fn register_times(&self, registry: &mut Registry) {
        let mut of = |name, help, histogram: &Histogram| {
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
        };
        of(
            "notify",
            "From the kernel program's event to the loop that received it, for events that found a threshold newly met",
            &self.notify,
        );
        of(
            "decision",
            "From the look to the decision to evict",
            &self.decision,
        );
        of(
            "sample_age",
            "How old the reading of the signal was when it led to the decision to evict",
            &self.sample_age,
        );
        registry.register_with_unit(
            "kill",
            "From the event, or the look where none led to it, to the last SIGKILL; without kills after a grace",
            Unit::Seconds,
            self.kill.clone(),
        );
    }

    fn register_losses(&self, registry: &mut Registry) {
        registry.register(
            "hook_silent",
            "Hooks that saw nothing although a signal fell",
            self.hook_silent.clone(),
        );
        let mut of = |name, help, counter: &Counter| {
            registry.register(name, help, counter.clone());
        };
        of(
            "events_lost",
            "Events that the kernel side could not hand over",
            &self.events_lost,
        );
        of(
            "events_late",
            "Events that waited for this program to run",
            &self.events_late,
        );
        of(
            "counts_forgotten",
            "Shares of a file system that the kernel's table had no room for: rankings miss what they had counted",
            &self.counts_forgotten,
        );
        of(
            "records_dropped",
            "Records that were not printed: the output is too slow, or closed",
            &self.records_dropped,
        );
        of(
            "oom_kills",
            "Victims of the kernel's OOM killer seen as they were chosen",
            &self.oom_kills,
        );
        of(
            "oom_mismatches",
            "Times that the kernel's count of OOM kills and those seen did not agree",
            &self.oom_mismatches,
        );
    }
}
