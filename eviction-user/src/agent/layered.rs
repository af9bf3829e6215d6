//! Two sources as one: each line belongs to the first that covers it, and to the second where none does.

use crate::model::Signal;
use crate::ports::{Distance, Growth, OomVictim, PressureEvent, PressureSource, SilentHook};

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
        if self.first.covers(signal) {
            self.first.arm(signal, distance)
        } else {
            self.second.arm(signal, distance)
        }
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

    fn growth(&mut self) -> Growth {
        self.first.growth()
    }

    fn lost_events(&mut self) -> u64 {
        self.first.lost_events() + self.second.lost_events()
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
