//! One pass of the kubelet's control loop, up to the point where something has to be done.
//!
//! A pure function of the state, the settings, the time and one look. Whether a kill succeeds plays
//! no part: the kubelet counts a failed one as done. `engine` knows better.

mod decision;
mod settings;
mod state;
mod victim;

use std::sync::Arc;

use super::additions::exclusion::Exclusions;
use super::thresholds::{self, Line};
use super::{containerfs, local_storage, priority, reclaim};
use crate::model::{FsLayout, Snapshot, Summary, Timestamp};

pub use decision::{Decision, Pressure};
pub use settings::Settings;
pub use state::State;

use state::update;
use victim::evict_one;

/// The file-system layout is asked for once; until it is known no cycle can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file-system layout of the node is not known yet")]
pub struct LayoutUnknown;

/// Whether there is anything to watch at all.
pub fn watches_anything(settings: &Settings) -> bool {
    !settings.thresholds.is_empty() || settings.local_storage_isolation
}

/// The first step, done even when reading statistics then fails: keeps the layout and rewrites the
/// containerfs thresholds once. Returns how many thresholds count in this cycle: appended ones first
/// act in the next.
pub fn prepare(state: &mut State, layout: Option<FsLayout>) -> Result<usize, LayoutUnknown> {
    let active = state.thresholds.len();
    if state.layout.is_none() {
        let layout = layout.ok_or(LayoutUnknown)?;
        state.layout = Some(layout);
        containerfs::rewrite(&mut state.thresholds, layout);
    }
    Ok(active)
}

/// Puts another layout in force. If that makes the list of thresholds another one, their grace periods begin anew: what is
/// remembered of them goes by their positions.
pub fn relay(state: &mut State, settings: &Settings, layout: FsLayout) {
    let mut thresholds = settings.thresholds.clone();
    containerfs::rewrite(&mut thresholds, layout);
    if thresholds != state.thresholds {
        state.satisfied.clear();
        state.first_observed.clear();
    }
    state.thresholds = thresholds;
    state.layout = Some(layout);
}

/// One cycle on a fresh look.
pub fn run(
    state: &mut State,
    settings: &Settings,
    exclusions: &Exclusions<'_>,
    now: Timestamp,
    snapshot: &Arc<Snapshot>,
) -> Result<Decision, LayoutUnknown> {
    if !watches_anything(settings) {
        return Ok(Decision::NothingToWatch);
    }
    let active = prepare(state, snapshot.layout)?;
    let layout = state.layout.ok_or(LayoutUnknown)?;
    let observations = settings.observe(&snapshot.summary);
    let mut fresh = update(state, settings, active, &observations, now);

    if settings.local_storage_isolation {
        let evictions = local_storage::evictions(&snapshot.pods, layout, |pod| {
            exclusions.of_pod(pod).is_some()
        });
        if !evictions.is_empty() {
            return Ok(Decision::EvictLocal(evictions));
        }
    }
    priority::sort(&state.thresholds, &mut fresh);
    let Some(first) = fresh.first() else {
        return Ok(Decision::Calm);
    };
    let signal = state.thresholds[*first].signal;
    let calls = reclaim::calls(signal, layout).unwrap_or_default();
    let pressure = Pressure {
        snapshot: snapshot.clone(),
        observations,
        layout,
        fresh,
        signal,
        calls,
    };
    if calls.is_empty() {
        return Ok(evict_one(state, settings, exclusions, &pressure));
    }
    Ok(Decision::Reclaim(Box::new(pressure)))
}

/// Goes on after node-level reclaim with a second reading (`None`: it failed). Done if no threshold
/// at all, of any signal, is below its exit line; else a pod has to go, chosen on the first look.
pub fn after_reclaim(
    state: &State,
    settings: &Settings,
    exclusions: &Exclusions<'_>,
    pressure: &Pressure,
    second: Option<&Summary>,
) -> Decision {
    if let Some(second) = second {
        let observations = settings.observe(second);
        let all = 0..state.thresholds.len();
        if thresholds::below(&state.thresholds, all, &observations, Line::Exit).is_empty() {
            return Decision::Reclaimed;
        }
    }
    evict_one(state, settings, exclusions, pressure)
}
