//! Waiting for victims to be gone, so that one eviction's effect is measured before the next
//! (user case 32).

use super::Engine;
use crate::model::{Action, Span, Timestamp, Uid};

/// Victims on their way out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiting {
    pub victims: Vec<Uid>,
    pub since: Timestamp,
}

impl Waiting {
    pub(super) fn new(victims: Vec<Uid>, since: Timestamp) -> Self {
        Self { victims, since }
    }

    pub(super) fn ends(&self, timeout: Span) -> Timestamp {
        self.since.plus(timeout)
    }
}

impl Engine {
    /// Gives up waiting once the time is over. Who is still there then is passed over like after a
    /// failed kill: ranked first again (as in the kubelet) it would keep all others safe for ever.
    pub(super) fn end_waiting_in_time(&mut self, now: Timestamp) -> Vec<Action> {
        let timeout = self.config.cleanup_timeout;
        match self.waiting.take_if(|waiting| now >= waiting.ends(timeout)) {
            Some(waiting) => {
                self.look_due = Some(now);
                for victim in &waiting.victims {
                    self.back_off(victim, now);
                }
                vec![Action::CleanupTimedOut(waiting.victims)]
            }
            None => Vec::new(),
        }
    }

    /// One victim needs no more waiting; after the last one a look is due at once.
    pub(super) fn victim_done(&mut self, now: Timestamp, uid: &Uid) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        waiting.victims.retain(|victim| victim != uid);
        if waiting.victims.is_empty() {
            self.waiting = None;
            self.look_due = Some(now);
        }
    }
}
