//! What the source tells beside the events that say "look now", and what it could not tell.

use super::Agent;
use crate::ports::{Entry, Executor, Inventory, Journal, PressureEvent, PressureSource, Wake};
use crate::sys::clock;
use std::time::Duration;

/// Far more than an event takes, also on a busy machine without a real-time thread: whoever reads so late was stopped.
const LATE: Duration = Duration::from_millis(250);

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    /// After the acting: nothing of this is worth delaying a kill.
    pub(super) fn observe(&mut self, wake: Wake) {
        for victim in self.source.oom_victims() {
            self.ledger.saw(victim.cgroup);
            self.tell(Entry::OomKill { victim });
        }
        if let Some((event, received)) = self.late.take() {
            self.tell(Entry::EventLate { event, received });
        }
        // Reading the counters allocates: not on the way from an event to its kill.
        if matches!(wake, Wake::Event(_)) {
            return;
        }
        if self.inventory.wants_growth() {
            let growth = self.source.growth();
            self.inventory.take_growth(&growth);
        }
        self.count_lost();
        self.count_forgotten();
        for hook in self.source.silent_hooks() {
            let at = clock::now();
            self.tell(Entry::HookSilent { at, hook });
        }
        let cycle = matches!(wake, Wake::Start | Wake::Interval);
        if cycle && self.ledger.has_reason(self.inventory.node_oom_kills()) {
            for mismatch in self.ledger.compare(&self.inventory.oom_counts()) {
                self.tell(Entry::OomMismatch { mismatch });
            }
        }
    }

    /// To be called for every event: keeps one that is worth telling.
    pub(super) fn note_delay(&mut self, event: PressureEvent) {
        let waited = clock::between(event.time, self.received);
        if waited > LATE && !event.while_arming {
            self.late = Some((event, self.received));
        }
    }

    fn count_forgotten(&mut self) {
        let forgotten = self.source.forgotten_counts();
        if forgotten > self.forgotten {
            self.tell(Entry::CountsForgotten {
                count: forgotten - self.forgotten,
            });
            self.forgotten = forgotten;
        }
    }

    fn count_lost(&mut self) {
        let lost = self.source.lost_events();
        if lost > self.lost {
            self.tell(Entry::EventsLost {
                count: lost - self.lost,
            });
            self.lost = lost;
        }
    }
}
