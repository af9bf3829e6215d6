//! The policy as a state machine for an agent: feed it looks and outcomes, do what it says.
//!
//! One pass of the kubelet's loop is `cycle::run`; this wraps it with what the kubelet does around
//! the loop (wait for victims to be gone, at most 30 s) and with what we do better: a kill that
//! failed counts as failed, and additions may hold an eviction back.

mod config;
mod deadline;
mod waiting;

use std::sync::Arc;

use super::additions::exclusion::{BackedOff, Exclusions};
use super::additions::pace::Pace;
use super::additions::stall_guard;
use super::admission::{self, Admission};
use super::cycle::{self, Decision, LayoutUnknown, Pressure, State};
use super::thresholds;
use crate::model::{
    Action, Condition, Eviction, EvictionCause, FsLayout, Hold, NodeEvent, Pod, Ranking, Resource,
    Signal, Snapshot, Summary, Threshold, Timestamp, Uid,
};

pub use config::EngineConfig;
pub use waiting::Waiting;

/// What the engine is told.
#[derive(Debug, Clone)]
pub enum Input {
    /// A fresh look that the policy shall judge. Give one when a threshold is newly met, on
    /// `deadline()`, when a victim is gone and at the monitoring interval, and no others: an extra
    /// good sample would restart soft grace periods that the kubelet would let run.
    Cycle(Arc<Snapshot>),
    /// A look failed; conditions neither age nor refresh. The layout counts if it is known.
    SampleFailed { layout: Option<FsLayout> },
    /// Answer to `Action::ReclaimNode`: the reading after it, or `None` if that failed.
    Reclaimed(Option<Arc<Summary>>),
    /// The victim is confirmed to be gone.
    Evicted { uid: Uid },
    /// The victim could not be removed; it is passed over for a while.
    EvictionFailed { uid: Uid },
    /// The engine's own deadline passed; only needed if no other input comes.
    CleanupTimeout,
}

#[derive(Debug, Clone)]
pub struct Engine {
    config: EngineConfig,
    state: State,
    waiting: Option<Waiting>,
    /// Node-level reclaim that is under way.
    reclaiming: Option<Box<Pressure>>,
    backed_off: BackedOff,
    pace: Pace,
    /// When an eviction that was held back may be tried again.
    held_until: Option<Timestamp>,
    /// A look is due now: a victim is gone, or could not be removed.
    look_due: Option<Timestamp>,
}

impl Engine {
    pub fn new(config: EngineConfig) -> Self {
        Self {
            state: State::new(&config.settings),
            pace: Pace::new(config.additions.cool_down, config.additions.max_per_hour),
            config,
            waiting: None,
            reclaiming: None,
            backed_off: BackedOff::new(),
            held_until: None,
            look_due: None,
        }
    }

    /// Takes one input and says what to do, in order.
    ///
    /// An error means that the look was not judged because its layout is not known; it is asked for
    /// again with the next look.
    pub fn handle(&mut self, now: Timestamp, input: Input) -> Result<Vec<Action>, LayoutUnknown> {
        let mut actions = self.end_waiting_in_time(now);
        match input {
            Input::Cycle(snapshot) => self.look(now, &snapshot, &mut actions)?,
            Input::SampleFailed { layout } => {
                if self.waiting.is_none() && cycle::watches_anything(&self.config.settings) {
                    cycle::prepare(&mut self.state, layout)?;
                }
            }
            Input::Reclaimed(second) => self.reclaimed(now, second.as_deref(), &mut actions),
            Input::Evicted { uid } => self.victim_done(now, &uid),
            Input::EvictionFailed { uid } => {
                self.pace.revoke(&uid);
                self.back_off(&uid, now);
                self.victim_done(now, &uid);
            }
            Input::CleanupTimeout => {}
        }
        Ok(actions)
    }

    /// Victims on their way out, if any; nobody else is evicted meanwhile.
    pub fn waiting(&self) -> Option<&Waiting> {
        self.waiting.as_ref()
    }

    /// Whether an answer to `Action::ReclaimNode` is expected.
    pub fn is_reclaiming(&self) -> bool {
        self.reclaiming.is_some()
    }

    /// Reported node conditions.
    pub fn conditions(&self) -> &[Condition] {
        self.state.conditions()
    }

    /// The thresholds in force, containerfs rewritten once the layout is known.
    pub fn thresholds(&self) -> &[Threshold] {
        self.state.thresholds()
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    pub fn admit(&self, pod: &Pod) -> Admission {
        admission::admit(pod, self.state.conditions())
    }

    /// Who would go if this signal's threshold were acted on now, and why not the others.
    pub fn preview(&self, snapshot: &Snapshot, signal: Signal) -> Ranking {
        let layout = self.state.layout.or(snapshot.layout).unwrap_or_default();
        let mut ranking = super::rank::by_signal(&snapshot.pods, signal, layout);
        self.exclusions().choose(&mut ranking);
        ranking
    }

    fn back_off(&mut self, uid: &Uid, now: Timestamp) {
        let until = now.plus(self.config.failed_kill_backoff);
        self.backed_off.insert(uid.clone(), until);
    }

    fn exclusions(&self) -> Exclusions<'_> {
        Exclusions {
            additions: &self.config.additions,
            backed_off: &self.backed_off,
        }
    }

    fn look(
        &mut self,
        now: Timestamp,
        snapshot: &Arc<Snapshot>,
        actions: &mut Vec<Action>,
    ) -> Result<(), LayoutUnknown> {
        // The kubelet's loop stands still while it waits or reclaims. So do we, but for one thing:
        // image clean-up takes long, and memory or PIDs must not run out behind its back.
        if self.waiting.is_some() || (self.reclaiming.is_some() && !self.is_urgent(snapshot)) {
            return Ok(());
        }
        self.reclaiming = None;
        self.look_due = None;
        self.held_until = None;
        self.backed_off.retain(|_, until| *until > now);

        let reported = self.state.conditions().to_vec();
        let exclusions = Exclusions {
            additions: &self.config.additions,
            backed_off: &self.backed_off,
        };
        let decision = cycle::run(
            &mut self.state,
            &self.config.settings,
            &exclusions,
            now,
            snapshot,
        )?;
        if self.state.conditions() != reported {
            actions.push(Action::Conditions(self.state.conditions().to_vec()));
        }
        self.act(now, decision, &snapshot.summary, actions);
        Ok(())
    }

    /// Whether a resource without node-level reclaim is short.
    fn is_urgent(&self, snapshot: &Snapshot) -> bool {
        let observations = self.config.settings.observe(&snapshot.summary);
        self.state.thresholds().iter().any(|threshold| {
            matches!(
                threshold.signal.resource(),
                Resource::Memory | Resource::Pids
            ) && threshold.is_hard()
                && observations
                    .get(threshold.signal)
                    .is_some_and(|observed| thresholds::is_met(threshold, observed))
        })
    }

    fn reclaimed(&mut self, now: Timestamp, second: Option<&Summary>, actions: &mut Vec<Action>) {
        // An answer nobody waits for any more: a later look took over.
        let Some(pressure) = self.reclaiming.take() else {
            return;
        };
        let decision = cycle::after_reclaim(
            &self.state,
            &self.config.settings,
            &self.exclusions(),
            &pressure,
            second,
        );
        // The node's event was sent with the request to reclaim.
        let mut late = Vec::new();
        self.act(
            now,
            decision,
            second.unwrap_or(&Summary::default()),
            &mut late,
        );
        actions.extend(
            late.into_iter()
                .filter(|action| !matches!(action, Action::NodeEvent(_))),
        );
    }

    fn act(
        &mut self,
        now: Timestamp,
        decision: Decision,
        summary: &Summary,
        actions: &mut Vec<Action>,
    ) {
        match decision {
            Decision::NothingToWatch | Decision::Calm | Decision::Reclaimed => {}
            Decision::Reclaim(pressure) => {
                actions.push(Action::NodeEvent(pressure.event()));
                actions.push(Action::ReclaimNode {
                    signal: pressure.signal,
                    calls: pressure.calls,
                });
                self.reclaiming = Some(pressure);
            }
            Decision::NoCandidate {
                event,
                signal,
                ranking,
            } => {
                actions.push(Action::NodeEvent(event));
                actions.push(Action::NoCandidate { signal, ranking });
            }
            Decision::Evict { event, eviction } => {
                self.evict(now, Some(event), vec![*eviction], summary, actions)
            }
            Decision::EvictLocal(evictions) => self.evict(now, None, evictions, summary, actions),
        }
    }

    fn evict(
        &mut self,
        now: Timestamp,
        event: Option<NodeEvent>,
        mut evictions: Vec<Eviction>,
        summary: &Summary,
        actions: &mut Vec<Action>,
    ) {
        if let Some(hold) = self.hold(now, &evictions, summary) {
            self.held_until = hold.left().map(|left| now.plus(left));
            actions.push(Action::Held(hold));
            return;
        }
        evictions.truncate(self.pace.room(now));
        for eviction in &evictions {
            self.pace.record(eviction.uid().clone(), now);
        }
        let victims = evictions
            .iter()
            .map(|eviction| eviction.uid().clone())
            .collect();
        self.waiting = Some(Waiting::new(victims, now));
        actions.extend(event.map(Action::NodeEvent));
        actions.extend(
            evictions
                .into_iter()
                .map(|eviction| Action::Evict(Box::new(eviction))),
        );
    }

    fn hold(&self, now: Timestamp, evictions: &[Eviction], summary: &Summary) -> Option<Hold> {
        self.pace
            .hold(now)
            .or_else(|| match &evictions.first()?.cause {
                EvictionCause::Pressure { resource, .. } => {
                    stall_guard::hold(self.config.additions.min_stall_percent, *resource, summary)
                }
                // A pod over its own limit goes, however the node is doing.
                EvictionCause::LocalStorage(_) => None,
            })
    }
}
