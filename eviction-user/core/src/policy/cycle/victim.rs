//! The one pod that goes for a threshold.

use super::super::additions::exclusion::Exclusions;
use super::super::{message, rank};
use super::{Decision, Pressure, Settings, State};
use crate::model::{Eviction, EvictionCause, KillGrace, Pod, Threshold};

pub(super) fn evict_one(
    state: &State,
    settings: &Settings,
    exclusions: &Exclusions<'_>,
    pressure: &Pressure,
) -> Decision {
    let event = pressure.event();
    let snapshot = &pressure.snapshot;
    let mut ranking = rank::by_signal_and_wishes(
        &snapshot.pods,
        pressure.signal,
        pressure.layout,
        exclusions.additions.honor_annotations,
    );
    exclusions.choose(&mut ranking);
    let Some(victim) = ranking.victim() else {
        return Decision::NoCandidate {
            event,
            signal: pressure.signal,
            ranking: Box::new(ranking),
        };
    };
    let pod = victim.pod.clone();
    let stats = snapshot.pods[victim.input].stats.as_ref();
    let threshold = &state.thresholds[pressure.fresh[0]];
    let resource = pressure.signal.resource();
    let quotable = pressure
        .fresh
        .iter()
        .map(|position| &state.thresholds[*position]);
    let message = message::of_eviction(resource, &pod, stats, quotable, &pressure.observations);
    let eviction = Eviction {
        grace: kill_grace(threshold, settings, &pod),
        message: message.text,
        annotations: message.annotations,
        disruption_condition: true,
        cause: EvictionCause::Pressure {
            resource,
            threshold: threshold.clone(),
            observed: pressure.observations.get(pressure.signal).copied(),
            ranking: Box::new(ranking),
        },
        pod,
    };
    Decision::Evict {
        event,
        eviction: Box::new(eviction),
    }
}

/// One second for a hard threshold, else the configured maximum or the pod's own, if that is less.
fn kill_grace(threshold: &Threshold, settings: &Settings, pod: &Pod) -> KillGrace {
    if threshold.is_hard() {
        return KillGrace(1);
    }
    let maximum = settings.max_pod_grace_secs;
    KillGrace(
        pod.termination_grace_secs
            .map_or(maximum, |own| own.min(maximum)),
    )
}
