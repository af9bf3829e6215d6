//! Feeds recorded inputs to an engine: the recorded one again, or one with another configuration.

use super::frame::{Head, Platform, Told};
use crate::model::{Action, Span, Summary, Threshold, Timestamp};
use crate::policy::additions::Additions;
use crate::policy::additions::memory_figure::MemoryFigure;
use crate::policy::engine::{BadCheckpoint, Checkpoint};
use crate::policy::{Engine, EngineConfig, Input};
use std::sync::Arc;

/// Another configuration. What it does not speak of stays as recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// For recordings of pods, with the allocatable copies.
    pub thresholds: Vec<Threshold>,
    /// For recordings of a host, as they are named.
    pub host_thresholds: Vec<Threshold>,
    pub transition_period: Span,
    pub max_pod_grace_secs: i64,
    pub memory_figure: MemoryFigure,
    pub additions: Additions,
}

impl Change {
    pub fn apply(&self, head: &Head) -> EngineConfig {
        let mut config = head.config.clone();
        let settings = &mut config.settings;
        settings.thresholds = match head.platform {
            Platform::Host => self.host_thresholds.clone(),
            Platform::Kubernetes => self.thresholds.clone(),
        };
        settings.transition_period = self.transition_period;
        settings.max_pod_grace_secs = self.max_pod_grace_secs;
        settings.memory_figure = self.memory_figure;
        let additions = self.additions.clone();
        // Which pod was our own is no setting.
        let own_pod = config.additions.protection.own_pod.take();
        config.additions = match head.platform {
            Platform::Host => additions.sparing(),
            // Recordings of before that was so for pods stay as they were.
            Platform::Kubernetes if config.additions.only_while_filling => additions.sparing(),
            Platform::Kubernetes => additions,
        };
        config.additions.protection.own_pod = own_pod;
        config
    }
}

/// What an engine said to one input.
#[derive(Debug, Clone)]
pub struct Decided {
    /// `None`: the look could not be judged, because the storage layout was not known.
    pub actions: Option<Vec<Action>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PlayError {
    #[error("an input comes before any configuration")]
    NoHead,
    #[error(transparent)]
    Checkpoint(#[from] BadCheckpoint),
}

/// Takes the frames of a recording one after another.
#[derive(Debug)]
pub struct Player {
    change: Option<Change>,
    engine: Option<Engine>,
    /// Run and number of the file that is played.
    place: Option<(String, u32)>,
    /// Only with another configuration: a reclaim that the recorded engine may not have asked for, and
    /// what is answered if so.
    unanswered: Option<(Timestamp, Arc<Summary>)>,
}

impl Player {
    /// With the recorded configuration.
    pub fn as_recorded() -> Self {
        Self::new(None)
    }

    /// "What would have happened": open loop, for the recorded world answers to what was decided then.
    pub fn with(change: Change) -> Self {
        Self::new(Some(change))
    }

    fn new(change: Option<Change>) -> Self {
        Self {
            change,
            engine: None,
            place: None,
            unanswered: None,
        }
    }

    pub fn engine(&self) -> Option<&Engine> {
        self.engine.as_ref()
    }

    /// A file starts. True if its engine knows nothing of what came before although the recorded one did.
    pub fn start(&mut self, head: &Head) -> Result<bool, PlayError> {
        let follows = self
            .place
            .as_ref()
            .is_some_and(|(run, part)| *run == head.run && head.part.checked_sub(1) == Some(*part));
        self.place = Some((head.run.clone(), head.part));
        match (&self.change, &head.resume) {
            (None, Some(checkpoint)) => {
                self.engine = Some(Engine::resume(head.config.clone(), checkpoint.clone())?);
                Ok(false)
            }
            (None, None) => {
                self.engine = Some(Engine::new(head.config.clone()));
                Ok(false)
            }
            // Its own state goes on: that of the recorded engine is about other thresholds.
            (Some(_), Some(_)) if follows => Ok(false),
            (Some(change), resume) => {
                self.engine = Some(Engine::new(change.apply(head)));
                self.unanswered = None;
                Ok(resume.is_some())
            }
        }
    }

    /// Inputs are missing here.
    pub fn skip_gap(&mut self, resume: &Checkpoint) -> Result<(), PlayError> {
        if self.change.is_none() {
            let engine = self.engine.take().ok_or(PlayError::NoHead)?;
            self.engine = Some(Engine::resume(engine.config().clone(), resume.clone())?);
        }
        Ok(())
    }

    /// The answer to an input.
    pub fn decide(&mut self, told: &Told) -> Result<Decided, PlayError> {
        let engine = self.engine.as_mut().ok_or(PlayError::NoHead)?;
        if self.change.is_none() {
            let actions = engine.handle(told.at, told.input.clone()).ok();
            return Ok(Decided { actions });
        }
        let mut all = Vec::new();
        // In this world the reclaim never took place: the reading after it is the one before.
        if let Some((at, summary)) = self.unanswered.take()
            && !matches!(told.input, Input::Reclaimed(_))
        {
            let late = engine.handle(at, Input::Reclaimed(Some(summary)));
            all.extend(late.into_iter().flatten());
        }
        let Ok(actions) = engine.handle(told.at, told.input.clone()) else {
            return Ok(Decided { actions: None });
        };
        if let (true, Input::Cycle(snapshot)) = (engine.is_reclaiming(), &told.input) {
            self.unanswered = Some((told.at, Arc::new(snapshot.summary.clone())));
        }
        all.extend(actions);
        Ok(Decided { actions: Some(all) })
    }
}
