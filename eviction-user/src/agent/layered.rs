//! Two sources as one: the second is asked only about what the first does not cover.

use crate::model::Signal;
use crate::ports::{
    Coverage, Distance, Growth, Moved, OomVictim, PressureEvent, PressureSource, SilentHook,
};

#[derive(Debug)]
pub struct Layered<A, B> {
    pub first: A,
    pub second: B,
}

impl<A: PressureSource, B: PressureSource> PressureSource for Layered<A, B> {
    fn mark(&mut self) {
        self.first.mark();
        self.second.mark();
    }

    fn arm(&mut self, signal: Signal, distance: Distance) -> Option<PressureEvent> {
        // Also where it does not cover the line: it may see most of what is used up there, and a hook that fell silent
        // is heard again only when it is armed.
        let crossed = self.first.arm(signal, distance);
        if self.first.covers(signal) {
            self.second.disarm(signal);
            return crossed;
        }
        let also = self.second.arm(signal, distance);
        crossed.or(also)
    }

    fn disarm(&mut self, signal: Signal) {
        self.first.disarm(signal);
        self.second.disarm(signal);
    }

    fn covers(&self, signal: Signal) -> bool {
        self.first.covers(signal) || self.second.covers(signal)
    }

    async fn next(&mut self) -> PressureEvent {
        tokio::select! {
            biased;
            event = self.first.next() => event,
            event = self.second.next() => event,
        }
    }

    fn pending(&mut self) -> Option<PressureEvent> {
        self.first.pending().or_else(|| self.second.pending())
    }

    fn upkeep(&mut self) {
        self.first.upkeep();
        self.second.upkeep();
    }

    fn follow(&mut self, moved: &Moved) {
        self.first.follow(moved);
        self.second.follow(moved);
    }

    fn coverage(&self, signal: Signal) -> Option<Coverage> {
        let first = self.first.coverage(signal)?;
        match (&first, self.second.coverage(signal)) {
            (Coverage::Timer(_), Some(hook @ Coverage::Hook(_))) => Some(hook),
            _ => Some(first),
        }
    }

    fn growth(&mut self) -> Growth {
        self.first.growth()
    }

    fn lost_events(&mut self) -> u64 {
        self.first.lost_events() + self.second.lost_events()
    }

    fn forgotten_counts(&mut self) -> u64 {
        self.first.forgotten_counts() + self.second.forgotten_counts()
    }

    fn silent_hooks(&mut self) -> Vec<SilentHook> {
        let mut silent = self.first.silent_hooks();
        silent.extend(self.second.silent_hooks());
        silent
    }

    fn oom_victims(&mut self) -> Vec<OomVictim> {
        let mut victims = self.first.oom_victims();
        victims.extend(self.second.oom_victims());
        victims
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FsLayout, Timestamp};
    use crate::ports::FsPlace;

    /// Says nothing but what a test asks of it.
    #[derive(Default)]
    struct Fake {
        covers: bool,
        armed: Option<Distance>,
        /// Answers every arming with "crossed meanwhile".
        crossed: bool,
        count: u64,
        followed: usize,
        coverage: Option<Coverage>,
    }

    impl PressureSource for Fake {
        fn mark(&mut self) {}

        fn arm(&mut self, signal: Signal, distance: Distance) -> Option<PressureEvent> {
            self.armed = Some(distance);
            self.crossed.then_some(PressureEvent {
                time: Timestamp::from_nanos(0),
                signal,
                cgroup: 0,
                amount: self.count,
                pid: 0,
                while_arming: true,
                rung: "fake",
            })
        }

        fn disarm(&mut self, _signal: Signal) {
            self.armed = None;
        }

        fn covers(&self, _signal: Signal) -> bool {
            self.covers
        }

        async fn next(&mut self) -> PressureEvent {
            std::future::pending().await
        }

        fn pending(&mut self) -> Option<PressureEvent> {
            None
        }

        fn upkeep(&mut self) {}

        fn follow(&mut self, _moved: &Moved) {
            self.followed += 1;
        }

        fn coverage(&self, _signal: Signal) -> Option<Coverage> {
            self.coverage.clone()
        }

        fn growth(&mut self) -> Growth {
            Growth::default()
        }

        fn lost_events(&mut self) -> u64 {
            self.count
        }

        fn forgotten_counts(&mut self) -> u64 {
            self.count
        }

        fn silent_hooks(&mut self) -> Vec<SilentHook> {
            Vec::new()
        }

        fn oom_victims(&mut self) -> Vec<OomVictim> {
            Vec::new()
        }
    }

    const LINE: Signal = Signal::NodeFsInodesFree;
    const DISTANCE: Distance = Distance {
        left: 100,
        level: None,
    };

    fn layered(covers: bool) -> Layered<Fake, Fake> {
        let first = Fake {
            covers,
            count: 3,
            ..Fake::default()
        };
        let second = Fake {
            count: 4,
            ..Fake::default()
        };
        Layered { first, second }
    }

    #[test]
    fn a_line_that_the_first_covers_is_armed_there_alone() {
        let mut both = layered(true);
        both.second.armed = Some(DISTANCE);
        assert_eq!(both.arm(LINE, DISTANCE), None);
        assert_eq!(
            (both.first.armed, both.second.armed),
            (Some(DISTANCE), None)
        );
    }

    #[test]
    fn a_line_that_the_first_sees_only_in_part_is_armed_in_both() {
        let mut both = layered(false);
        both.first.crossed = true;
        let crossed = both.arm(LINE, DISTANCE);
        assert_eq!(crossed.map(|event| event.amount), Some(3));
        assert_eq!(
            (both.first.armed, both.second.armed),
            (Some(DISTANCE), Some(DISTANCE))
        );
    }

    #[test]
    fn what_either_lost_or_forgot_is_told() {
        let mut both = layered(true);
        assert_eq!((both.lost_events(), both.forgotten_counts()), (7, 7));
    }

    #[test]
    fn both_follow_a_file_system_and_a_hook_of_either_covers_it() {
        let (timer, hook) = (Coverage::Timer("no hook".into()), Coverage::Hook("fake"));
        let mut both = layered(true);
        let moved = Moved {
            path: "/data".into(),
            from: place(),
            to: place(),
            signals: Vec::new(),
            layout: FsLayout::default(),
        };
        both.follow(&moved);
        assert_eq!((both.first.followed, both.second.followed), (1, 1));
        for (first, second, expected) in [
            (None, Some(&timer), None),
            (Some(&hook), Some(&timer), Some(&hook)),
            (Some(&timer), Some(&hook), Some(&hook)),
            (Some(&timer), Some(&timer), Some(&timer)),
        ] {
            both.first.coverage = first.cloned();
            both.second.coverage = second.cloned();
            assert_eq!(both.coverage(LINE).as_ref(), expected);
        }
    }

    fn place() -> FsPlace {
        FsPlace {
            kind: Some("ext4".into()),
            device: 7,
            at: "/data".into(),
        }
    }
}
