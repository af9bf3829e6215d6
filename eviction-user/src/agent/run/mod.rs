//! One turn: mark, look, decide if a decision is due, act, arm. Then wait for whatever comes first.

mod act;
mod limits;
mod moves;
mod observe;
mod reclaim;
mod removals;
mod resume;

use super::oom::OomLedger;
use super::{Lines, Pace};
use crate::model::{Signal, Timestamp, Uid};
use crate::policy::Engine;
use crate::ports::{
    Distance, Entry, Executor, Inventory, Journal, PressureEvent, PressureSource, Started, Wake,
};
use crate::record::Recorder;
use crate::record::victims::VictimKeeper;
use crate::sys::clock::{self, later};
use crate::telemetry::metrics::{Turned, Vitals};
use limits::Limits;
use moves::Untold;
use reclaim::Reclaiming;
use removals::Removing;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// A line may be crossed again and again while it is being armed. After so many turns without a pause
/// this thread, which runs before all others, lets them run.
const TURNS_WITHOUT_PAUSE: u32 = 4;
const PAUSE: Duration = Duration::from_millis(1);
/// How soon a look that failed is tried again.
const BLIND_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub struct Settings {
    /// A policy cycle runs at least this often (the kubelet: 10 s).
    pub interval: Duration,
    /// Look between the cycles too: on the heartbeat, or on the timer where no event comes.
    pub look_between: bool,
    pub dry_run: bool,
    /// Tell of every look.
    pub tell_looks: bool,
}

pub struct Agent<S, I, X, J> {
    source: S,
    inventory: I,
    executor: X,
    journal: J,
    engine: Engine,
    lines: Lines,
    pace: Pace,
    settings: Settings,
    started: Timestamp,
    next_cycle: Timestamp,
    distances: [Option<Distance>; Signal::ALL.len()],
    limits: Limits,
    removing: Vec<Removing>,
    reclaiming: Reclaiming,
    /// Victims of a dry run. The engine hears that they are gone when the next cycle is due, so that it
    /// decides once a cycle, as it would if each of them made no difference.
    pretended: Vec<Uid>,
    /// What holds evictions back, once told, by name: it is asked again every second.
    held_by: Option<&'static str>,
    next_id: u64,
    lost: u64,
    forgotten: u64,
    ledger: OomLedger,
    /// An event of this turn that had waited long, and when it was received.
    late: Option<(PressureEvent, Timestamp)>,
    recorder: Option<Recorder>,
    keeper: Option<VictimKeeper>,
    vitals: Arc<Vitals>,
    /// When the event of this turn was taken out of its ring.
    received: Timestamp,
    /// Why the last look failed, if it did: the same reason is told once.
    blind_because: Option<String>,
    /// Paths that lead to other file systems, not told yet.
    moves: Vec<Untold>,
    /// A look is due that nobody asked for.
    look_now: bool,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Armed,
    /// A line was crossed between the look and the arming: its look is due now.
    CrossedMeanwhile(PressureEvent),
    /// The look failed, and with it every reason to act.
    Blind,
}

impl<S: PressureSource, I: Inventory, X: Executor, J: Journal> Agent<S, I, X, J> {
    pub fn new(
        source: S,
        inventory: I,
        executor: X,
        journal: J,
        engine: Engine,
        lines: Lines,
        settings: Settings,
    ) -> Self {
        let now = clock::now();
        Self {
            source,
            inventory,
            executor,
            journal,
            engine,
            lines,
            pace: Pace::default(),
            settings,
            started: now,
            next_cycle: now,
            distances: [None; Signal::ALL.len()],
            limits: Limits::Unknown,
            removing: Vec::new(),
            reclaiming: Reclaiming::default(),
            pretended: Vec::new(),
            held_by: None,
            next_id: 1,
            lost: 0,
            forgotten: 0,
            ledger: OomLedger::default(),
            late: None,
            recorder: None,
            keeper: None,
            vitals: Arc::new(Vitals::new(now)),
            received: now,
            blind_because: None,
            moves: Vec::new(),
            look_now: false,
        }
    }

    /// From here on all that the engine is told and decides is recorded.
    pub fn recorded_by(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// From here on the loop's state is told there.
    pub fn watched_by(mut self, vitals: Arc<Vitals>) -> Self {
        self.vitals = vitals;
        self
    }

    /// Runs until `stop` is ready. `how` is recorded once all lines are armed.
    pub async fn run(&mut self, how: Started, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut wake = Wake::Start;
        let mut started = Some(how);
        let mut crossed_in_a_row = 0;
        loop {
            let turn = self.turn(wake);
            if let Some(how) = started.take() {
                self.tell(Entry::Started {
                    at: clock::now(),
                    how,
                });
            }
            crossed_in_a_row = if matches!(turn, Turn::CrossedMeanwhile(_)) {
                crossed_in_a_row + 1
            } else {
                0
            };
            let wait = match turn {
                // Whatever is due already: a thread that runs before all others lets them run.
                Turn::Armed => self.until_next().max(PAUSE),
                Turn::Blind => BLIND_RETRY,
                Turn::CrossedMeanwhile(_) if crossed_in_a_row % TURNS_WITHOUT_PAUSE == 0 => PAUSE,
                Turn::CrossedMeanwhile(_) => Duration::ZERO,
            };
            self.vitals.turned(
                clock::now(),
                &Turned {
                    wait,
                    blind: turn == Turn::Blind,
                    left: self.left(),
                    leaving: self.removing.len(),
                },
            );
            wake = tokio::select! {
                biased;
                () = &mut stop => return,
                event = self.source.next() => self.heard(event),
                () = tokio::time::sleep(wait) => match turn {
                    Turn::CrossedMeanwhile(event) => self.heard(event),
                    Turn::Armed | Turn::Blind if self.cycle_due(clock::now()) => Wake::Interval,
                    Turn::Armed | Turn::Blind => Wake::Heartbeat,
                },
            };
        }
    }

    fn heard(&mut self, event: PressureEvent) -> Wake {
        self.received = clock::now();
        self.vitals.heard(event.rung, event.signal);
        self.note_delay(event);
        Wake::Event(event)
    }

    fn turn(&mut self, wake: Wake) -> Turn {
        let gone = self.follow_removals();
        let wake = if gone { Wake::VictimGone } else { wake };
        let reclaimed = self.executor.reclaimed();
        // Not on the way from an event to its kill.
        if !matches!(wake, Wake::Event(_)) {
            self.source.upkeep();
        }
        let began = clock::now();
        self.vitals.looked();
        self.look_now = false;
        self.source.mark();
        let (taken, newly_met, second) = match self.inventory.look() {
            Ok(look) => {
                let observations = self.engine.config().settings.observe(&look.summary);
                for signal in Signal::ALL {
                    self.distances[signal.index()] =
                        self.lines.distance(signal, look, &observations);
                }
                let second = reclaimed.is_some().then(|| look.summary.clone());
                (look.taken, self.lines.newly_met(&observations), second)
            }
            Err(e) => {
                self.blind(e.to_string());
                if let Some(report) = reclaimed {
                    self.reclaimed(report, None, clock::now());
                }
                return Turn::Blind;
            }
        };
        // Why a path could not be followed is known since the end of the turn before.
        self.partly_blind();
        // The event may have come while this look, taken for another reason, was under way.
        let wake = match wake {
            Wake::Event(_) => wake,
            _ if newly_met => match self.source.pending() {
                Some(event) => self.heard(event),
                None => wake,
            },
            _ => wake,
        };
        // Most events lead to a look that finds room left: only the one that led further is worth a line.
        if let (true, Wake::Event(event)) = (newly_met, wake) {
            let received = self.received;
            self.tell(Entry::Event { event, received });
        }
        if self.settings.tell_looks {
            let left = self.left();
            // Not for the recorder: what the engine was told is in there already.
            self.journal.record(Entry::Look { began, wake, left });
        }
        if let Some(report) = reclaimed {
            self.reclaimed(report, second, taken);
        }
        let exceeds = self.compare_limits(wake, newly_met);
        if newly_met || gone || exceeds || self.cycle_due(clock::now()) {
            self.cycle(wake, taken);
        }
        self.observe(wake);
        self.follow_moves(wake);
        self.arm()
    }

    fn blind(&mut self, reason: String) {
        self.vitals.look_failed();
        self.distances = [None; Signal::ALL.len()];
        if self.blind_because.as_ref() != Some(&reason) {
            self.tell(Entry::LookFailed {
                reason: reason.clone(),
            });
            self.blind_because = Some(reason);
        }
    }

    /// One disk that cannot be read is told, and keeps nobody from seeing the rest.
    fn partly_blind(&mut self) {
        let unread = self.inventory.unread();
        if unread.is_some() {
            self.vitals.look_failed();
        }
        if let Some(reason) = unread.clone().filter(|_| unread != self.blind_because) {
            self.tell(Entry::LookFailed { reason });
        }
        self.blind_because = unread;
    }

    fn cycle_due(&self, now: Timestamp) -> bool {
        now >= self.next_cycle
            || self
                .engine
                .deadline()
                .is_some_and(|deadline| now >= deadline)
    }

    /// To each signal's nearest line.
    fn left(&self) -> [Option<i64>; Signal::ALL.len()] {
        self.distances.map(|distance| Some(distance?.left))
    }

    fn arm(&mut self) -> Turn {
        let at = clock::between(self.started, clock::now());
        let mut turn = Turn::Armed;
        for signal in Signal::ALL {
            // Crossed already: more events would say nothing new. The way back is found by the heartbeat.
            let ahead = self.distances[signal.index()].filter(|distance| distance.left > 0);
            if let Some(distance) = ahead {
                self.pace.observe(signal, distance.left, at);
            }
            match self.limits.nearer(signal, ahead) {
                Some(distance) => {
                    if let Some(event) = self.source.arm(signal, distance) {
                        turn = Turn::CrossedMeanwhile(event);
                    }
                }
                None => self.source.disarm(signal),
            }
        }
        turn
    }

    fn until_next(&self) -> Duration {
        if self.look_now {
            return Duration::ZERO;
        }
        let now = clock::now();
        let cycle = clock::between(
            now,
            self.engine
                .deadline()
                .map_or(self.next_cycle, |d| d.min(self.next_cycle)),
        );
        let look = Signal::ALL
            .into_iter()
            .filter(|_| self.settings.look_between)
            .filter_map(|signal| {
                let distance = self.distances[signal.index()]?;
                Some(
                    self.pace
                        .wait(signal, distance.left, self.source.covers(signal)),
                )
            })
            .min()
            .unwrap_or(cycle);
        let removal = self.removing.iter().map(|victim| victim.due_in(now));
        // A disk without a figure has no line that would ask for a look.
        let unread = self.blind_because.as_ref();
        let unread = unread
            .filter(|_| self.settings.look_between)
            .map(|_| BLIND_RETRY);
        let limits = self.settings.look_between.then(|| self.limits_due(now));
        let asked = self.reclaiming.due_in().into_iter().chain(unread);
        let asked = asked.chain(limits.flatten());
        let others = removal.chain(asked).chain(self.inventory.follow_in()).min();
        cycle.min(look).min(others.unwrap_or(cycle))
    }
}
