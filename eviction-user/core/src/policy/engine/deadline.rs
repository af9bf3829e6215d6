//! When the engine wants a look even if nothing happens.

use super::super::conditions;
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
        let state = &self.state;
        let pending_grace = state.first_observed.iter().filter_map(|(position, since)| {
            let is_pending = !state.satisfied.contains(position);
            is_pending.then(|| since.plus(state.thresholds[*position].grace))
        });
        let period = self.config.settings.transition_period;
        let expiry = conditions::next_expiry(&state.condition_times, &state.conditions, period);
        pending_grace
            .chain(expiry)
            .chain(self.held_until)
            .chain(self.look_due)
            .min()
    }
}
