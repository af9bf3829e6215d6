//! Keeps a scan to a part of its thread's time, whatever the tree looks like.

use crate::model::Timestamp;
use crate::sys::clock;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Entries between two looks at the clock.
const ENTRIES: u32 = 64;
/// How long it works before it rests.
const STRETCH: Duration = Duration::from_millis(5);
/// A read that hung on a slow disk is no reason to stop for minutes.
const LONGEST_REST: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Throttle {
    /// How long it rests, as a multiple of the work before.
    rest: u32,
    entries: u32,
    working_since: Timestamp,
    stop: Arc<AtomicBool>,
}

impl Throttle {
    pub(super) fn background(rest: u32, stop: Arc<AtomicBool>) -> Self {
        Self {
            rest,
            entries: 0,
            working_since: clock::now(),
            stop,
        }
    }

    /// For a scan that somebody waits for.
    pub(super) fn unlimited() -> Self {
        Self::background(0, Arc::default())
    }

    /// To be called for each entry; `Break`: stop now.
    pub(super) fn tick(&mut self) -> ControlFlow<()> {
        self.entries += 1;
        if self.entries < ENTRIES {
            return ControlFlow::Continue(());
        }
        self.entries = 0;
        let worked = clock::elapsed_since(self.working_since);
        if self.rest > 0 && worked >= STRETCH {
            std::thread::sleep((worked * self.rest).min(LONGEST_REST));
            self.working_since = clock::now();
        }
        if self.stop.load(Ordering::Relaxed) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
