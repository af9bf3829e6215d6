//! Watched paths that lead to another file system than before: something was mounted there, or unmounted.

use super::Agent;
use crate::model::FsLayout;
use crate::policy::Input;
use crate::ports::{Coverage, Entry, Executor, Inventory, Journal, Moved, PressureSource, Wake};
use crate::sys::clock;

/// What is told of a line whose hooks are still being attached.
const SETTLING: &str = "its hooks are being attached";

#[derive(Debug)]
pub(super) struct Untold {
    moved: Moved,
    /// Told once, without all that is to be known.
    in_part: bool,
}

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    /// After the acting, so that nothing here comes between a look and what it leads to. The lines that have moved have no
    /// figure in this turn; the next one, which comes at once, looks at the new file system and arms them.
    pub(super) fn follow_moves(&mut self, wake: Wake) {
        for mut moved in self.inventory.follow() {
            moved.signals.retain(|line| self.lines.watch(line.signal));
            for line in &moved.signals {
                // How fast another disk filled says nothing.
                self.pace.forget(line.signal);
                self.distances[line.signal.index()] = None;
            }
            // The same path again before its hooks were there: what was not told is told with what is known.
            if self
                .moves
                .iter()
                .any(|untold| untold.moved.path == moved.path)
            {
                self.tell_moves(true);
                self.moves.retain(|untold| untold.moved.path != moved.path);
            }
            self.source.follow(&moved);
            self.look_now = true;
            self.lay_out(moved.layout);
            self.moves.push(Untold {
                moved,
                in_part: false,
            });
        }
        // The start is told first.
        if wake != Wake::Start {
            self.tell_moves(false);
        }
    }

    /// Where file systems are apart that were one, or the other way round, other lines hold and others are ranked.
    fn lay_out(&mut self, layout: FsLayout) {
        let known = self.engine.state().layout();
        if known.is_some_and(|known| known != layout) {
            let now = clock::now();
            self.carry_out(now, Wake::Interval, now, Input::Relaid { layout });
            self.lines.replace(self.engine.thresholds());
        }
    }

    /// Once it is settled who says when to look there; `at_once`: before that too, because a decision that names the new
    /// place must not come first.
    pub(super) fn tell_moves(&mut self, at_once: bool) {
        for mut untold in std::mem::take(&mut self.moves) {
            let lines = untold.moved.signals.iter();
            let known: Vec<_> = lines
                .map(|line| self.source.coverage(line.signal))
                .collect();
            let is_settled = known.iter().all(Option::is_some);
            if is_settled || (at_once && !untold.in_part) {
                let settling = || Coverage::Timer(SETTLING.to_owned());
                let coverage = known.into_iter();
                self.tell(Entry::Moved {
                    at: clock::now(),
                    moved: untold.moved.clone(),
                    coverage: coverage
                        .map(|known| known.unwrap_or_else(settling))
                        .collect(),
                });
                untold.in_part = true;
            }
            if !is_settled {
                self.moves.push(untold);
            }
        }
    }
}
