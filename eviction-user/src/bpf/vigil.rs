//! Is a hook still running? Its link may be in place and its program never called: kprobes can be switched off as a whole
//! (`/sys/kernel/debug/kprobes/enabled`), and no kernel tells. What tells is the figure itself: when it falls and the hook
//! has spent nothing at all meanwhile, then whatever uses it up is not seen.

use crate::model::Signal;

use super::{Family, Mark};

/// By how much a figure may fall unseen before that means something: more than can be between a hook and its counter. A
/// busy node spends at least a page in that time.
const fn slack(family: Family) -> i64 {
    match family {
        Family::Memory
        | Family::Ext4Bytes
        | Family::XfsBytes
        | Family::BtrfsBytes
        | Family::TmpfsBytes
        | Family::WrittenBytes => 16 << 20,
        Family::Inodes | Family::Freed | Family::Pids | Family::Observations => 64,
    }
}

/// One signal and the slot that watches it.
#[derive(Debug)]
pub(super) struct Vigil {
    signal: Signal,
    family: Family,
    /// What was left and what had been spent when the hook was last seen at work.
    last: Option<(i64, Mark)>,
    silent: bool,
    /// For whoever asks next.
    news: Option<i64>,
}

impl Vigil {
    pub(super) const fn new(signal: Signal, family: Family) -> Self {
        Self {
            signal,
            family,
            last: None,
            silent: false,
            news: None,
        }
    }

    pub(super) const fn signal(&self) -> Signal {
        self.signal
    }

    pub(super) const fn is_silent(&self) -> bool {
        self.silent
    }

    /// Units by which the figure has fallen unseen, once each time that it comes to that.
    pub(super) fn take_news(&mut self) -> Option<i64> {
        self.news.take()
    }

    /// A look found this much left, and `spent` was read after it. `unreported`: what the hook may owe by design.
    pub(super) fn look(&mut self, left: i64, spent: Mark, unreported: i64) {
        let Some((before, then)) = self.last else {
            self.last = Some((left, spent));
            return;
        };
        if then != spent {
            self.last = Some((left, spent));
            self.silent = false;
            return;
        }
        if left > before {
            // Something was given back.
            self.last = Some((left, spent));
            return;
        }
        let unseen = before.saturating_sub(left);
        let most = slack(self.family).saturating_add(unreported);
        if unseen > most && !self.silent {
            self.silent = true;
            self.news = Some(unseen);
        }
    }

    /// The line was disarmed: nobody looks here for a while.
    pub(super) fn rest(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: i64 = 1 << 20;

    fn vigil(looks: &[(i64, u64)]) -> Vigil {
        let mut vigil = Vigil::new(Signal::MemoryAvailable, Family::Memory);
        for (left, spent) in looks {
            vigil.look(left * MIB, Mark::at(*spent), 0);
        }
        vigil
    }

    #[test]
    fn a_hook_that_sees_nothing_while_memory_goes_is_silent() {
        let mut vigil = vigil(&[(100, 7), (90, 7), (83, 7)]);
        assert!(vigil.is_silent());
        assert_eq!(vigil.take_news(), Some(17 * MIB));
        assert_eq!(vigil.take_news(), None, "told once");
    }

    #[test]
    fn one_that_sees_anything_or_has_nothing_to_see_is_not() {
        let table: [&[(i64, u64)]; 4] = [
            &[(100, 7), (50, 8), (0, 9)],
            &[(100, 7), (84, 7)],
            &[(100, 7), (100, 7), (100, 7)],
            // Freed, and taken again by less than the slack.
            &[(100, 7), (200, 7), (190, 7)],
        ];
        for looks in table {
            assert!(!vigil(looks).is_silent(), "{looks:?}");
        }
    }

    #[test]
    fn it_is_trusted_again_as_soon_as_it_spends_and_can_fall_silent_again() {
        let mut vigil = vigil(&[(100, 7), (50, 7), (49, 8)]);
        assert!(!vigil.is_silent());
        vigil.take_news();
        vigil.look(20 * MIB, Mark::at(8), 0);
        assert_eq!(vigil.take_news(), Some(29 * MIB));
    }

    #[test]
    fn samples_that_are_due_and_times_without_a_line_do_not_count() {
        let mut vigil = Vigil::new(Signal::MemoryAvailable, Family::Memory);
        vigil.look(100 * MIB, Mark::at(7), 64 * MIB);
        vigil.look(30 * MIB, Mark::at(7), 64 * MIB);
        assert!(!vigil.is_silent());
        vigil.rest();
        vigil.look(0, Mark::at(7), 0);
        assert!(!vigil.is_silent());
    }
}
