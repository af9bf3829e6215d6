//! A pressure source without events: all that is left is the timer.

use crate::ports::{Distance, PressureEvent, PressureSource, Watch};
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub struct TimerOnly;

impl PressureSource for TimerOnly {
    fn mark(&mut self) {}

    fn arm(&mut self, _watch: Watch, _distance: Distance) -> Option<PressureEvent> {
        None
    }

    fn disarm(&mut self, _watch: Watch) {}

    fn covers(&self, _watch: Watch) -> bool {
        false
    }

    async fn next(&mut self) -> PressureEvent {
        std::future::pending().await
    }

    fn pending(&mut self) -> Option<PressureEvent> {
        None
    }

    fn inodes_made(&mut self) -> BTreeMap<u64, u64> {
        BTreeMap::new()
    }

    fn lost_events(&mut self) -> u64 {
        0
    }
}
