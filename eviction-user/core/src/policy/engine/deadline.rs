//! When the engine wants a look even if nothing happens.

use super::Engine;
use crate::model::Timestamp;

impl Engine {
    /// The next moment at which a fresh look (or, while waiting, `Input::CleanupTimeout`) may change
    /// something: a soft grace period ends, a condition runs out, a victim is overdue or gone, a hold
    /// ends. The monitoring interval is the caller's.
    pub fn deadline(&self) -> Option<Timestamp> {
        if let Some(waiting) = &self.waiting {
            return Some(waiting.ends(self.config.cleanup_timeout));
        }
        let next_change = self
            .state
            .next_change(self.config.settings.transition_period);
        next_change
            .into_iter()
            .chain(self.held_until)
            .chain(self.look_due)
            .min()
    }
}
