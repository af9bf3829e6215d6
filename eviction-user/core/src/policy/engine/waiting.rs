//! Waiting for victims to be gone, so that one eviction's effect is measured before the next
//! (user case 32).

use super::Engine;
use crate::model::{Action, Eviction, Span, Summary, Timestamp, Uid};

/// Victims on their way out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Waiting {
    pub victims: Vec<Uid>,
    /// When they were evicted, or their grace was ended.
    pub since: Timestamp,
    /// What they may take to leave by themselves, as victims of a soft threshold.
    #[cfg_attr(feature = "serde", serde(default))]
    pub grace: Span,
}

impl Waiting {
    pub(super) fn new(evictions: &[Eviction], since: Timestamp) -> Self {
        Self {
            victims: evictions.iter().map(|e| e.uid().clone()).collect(),
            since,
            grace: evictions
                .iter()
                .filter_map(Eviction::time_to_leave)
                .max()
                .unwrap_or_default(),
        }
    }

    /// The kubelet's wait begins when the kill call, grace included, is over.
    pub(super) fn ends(&self, timeout: Span) -> Timestamp {
        self.since.plus(self.grace).plus(timeout)
    }
}

impl Engine {
    /// Goes on with victims that another process left behind, instead of choosing others.
    pub fn go_on_waiting(&mut self, waiting: Waiting) {
        self.waiting = Some(waiting).filter(|waiting| !waiting.victims.is_empty());
    }

    /// Gives up waiting once the time is over. Who is still there then is passed over like after a
    /// failed kill: ranked first again (as in the kubelet) it would keep all others safe for ever.
    pub(super) fn end_waiting_in_time(&mut self, now: Timestamp) -> Vec<Action> {
        let timeout = self.config.cleanup_timeout;
        match self.waiting.take_if(|waiting| now >= waiting.ends(timeout)) {
            Some(waiting) => {
                self.look_due = Some(now);
                self.filling.forget();
                let until = now.plus(self.config.failed_kill_backoff);
                for victim in &waiting.victims {
                    self.back_off(victim, until);
                }
                vec![Action::CleanupTimedOut(waiting.victims)]
            }
            None => Vec::new(),
        }
    }

    /// A node that is short by a hard threshold has no time for anybody's grace. No second victim is
    /// chosen: what the first one gives back is measured first.
    pub(super) fn end_grace(&mut self, now: Timestamp, summary: &Summary) -> Option<Action> {
        let is_short = self.is_short(summary, |_| true);
        let waiting = self
            .waiting
            .as_mut()
            .filter(|w| is_short && !w.grace.is_zero())?;
        waiting.since = now;
        waiting.grace = Span::ZERO;
        Some(Action::EndGrace(waiting.victims.clone()))
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
