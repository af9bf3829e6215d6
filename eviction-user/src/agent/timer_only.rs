//! A pressure source without events: all that is left is the timer.

use crate::model::Signal;
use crate::ports::{
    Coverage, Distance, Growth, Moved, OomVictim, PressureEvent, PressureSource, SilentHook,
};

#[derive(Debug, Default)]
pub struct TimerOnly;

impl PressureSource for TimerOnly {
    fn mark(&mut self) {}

    fn arm(&mut self, _signal: Signal, _distance: Distance) -> Option<PressureEvent> {
        None
    }

    fn disarm(&mut self, _signal: Signal) {}

    fn covers(&self, _signal: Signal) -> bool {
        false
    }

    async fn next(&mut self) -> PressureEvent {
        std::future::pending().await
    }

    fn pending(&mut self) -> Option<PressureEvent> {
        None
    }

    fn upkeep(&mut self) {}

    fn follow(&mut self, _moved: &Moved) {}

    fn coverage(&self, signal: Signal) -> Option<Coverage> {
        Some(Coverage::Timer(format!(
            "{signal}: no kernel events are in use"
        )))
    }

    fn growth(&mut self) -> Growth {
        Growth::default()
    }

    fn lost_events(&mut self) -> u64 {
        0
    }

    fn forgotten_counts(&mut self) -> u64 {
        0
    }

    fn silent_hooks(&mut self) -> Vec<SilentHook> {
        Vec::new()
    }

    fn oom_victims(&mut self) -> Vec<OomVictim> {
        Vec::new()
    }
}
