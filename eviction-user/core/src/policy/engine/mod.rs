//! The policy as a state machine for an agent: feed it looks and outcomes, do what it says.
//!
//! One pass of the kubelet's loop is `cycle::run`; this wraps it with what the kubelet does around
//! the loop (wait for victims to be gone, at most 30 s) and with what we do better: a kill that
//! failed counts as failed, and additions may hold an eviction back.

mod checkpoint;
mod config;
mod deadline;
mod eviction;
mod look;
mod waiting;

use std::sync::Arc;

use super::additions::exclusion::{BackedOff, Exclusions, Refused};
use super::additions::filling_guard::FillingGuard;
use super::additions::pace::Pace;
use super::admission::{self, Admission};
use super::cycle::{self, LayoutUnknown, Pressure, State};
use crate::model::{
    Action, Condition, FsLayout, Pod, Ranking, Signal, Snapshot, Span, Summary, Threshold,
    Timestamp, Uid,
};

pub use checkpoint::{BadCheckpoint, Checkpoint};
pub use config::EngineConfig;
pub use waiting::Waiting;

/// What the engine is told.
#[derive(Debug, Clone)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    EvictionFailed {
        uid: Uid,
        /// For so long, where whoever was asked has refused it.
        #[cfg_attr(feature = "serde", serde(default))]
        again: Option<Span>,
    },
    /// The engine's own deadline passed; only needed if no other input comes.
    CleanupTimeout,
    /// File systems came or went: this is the layout from here on. The kubelet asks for it once and never again.
    Relaid { layout: FsLayout },
}

#[derive(Debug, Clone)]
pub struct Engine {
    config: EngineConfig,
    state: State,
    waiting: Option<Waiting>,
    /// Node-level reclaim that is under way.
    reclaiming: Option<Box<Pressure>>,
    backed_off: BackedOff,
    refused: Refused,
    pace: Pace,
    filling: FillingGuard,
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
            refused: Refused::default(),
            filling: FillingGuard::default(),
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
            Input::EvictionFailed { uid, again } => {
                self.pace.revoke(&uid);
                self.filling.forget();
                match again {
                    Some(again) => self
                        .refused
                        .put(uid.clone(), now.plus(again), self.is_soft()),
                    None => self.back_off(&uid, now.plus(self.config.failed_kill_backoff)),
                }
                self.victim_done(now, &uid);
            }
            Input::CleanupTimeout => {}
            Input::Relaid { layout } => {
                cycle::relay(&mut self.state, &self.config.settings, layout);
            }
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
        let layout = self.state.layout().or(snapshot.layout).unwrap_or_default();
        let mut ranking = super::rank::by_signal_and_wishes(
            &snapshot.pods,
            signal,
            layout,
            self.config.additions.honor_annotations,
        );
        self.exclusions().choose(&mut ranking);
        ranking
    }

    /// Is it a soft threshold that victims go for?
    fn is_soft(&self) -> bool {
        let waiting = self.waiting.as_ref();
        waiting.is_some_and(|waiting| !waiting.grace.is_zero())
    }

    fn back_off(&mut self, uid: &Uid, until: Timestamp) {
        self.backed_off.insert(uid.clone(), until);
    }

    fn exclusions(&self) -> Exclusions<'_> {
        Exclusions {
            additions: &self.config.additions,
            backed_off: &self.backed_off,
            refused: &self.refused,
        }
    }
}
