//! Disk use by workload, the slow part: what lies below the directories that the user gave, counted again
//! and again on a thread that runs last and rests nine tenths of its time. What the kernel counts since the
//! beginning of a round is added to what the round found; see `super::disk_use`.

mod saved;
#[cfg(test)]
mod tests;
mod throttle;
mod walk;

use crate::model::Timestamp;
use crate::sys::background::schedule_last;
use crate::sys::clock;
use saved::{SavedScan, SavedWalk};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use throttle::Throttle;
use walk::{Top, Walk};

/// How often a pass under way is put down, so that a restart goes on instead of beginning again.
const SAVE_EVERY: Duration = Duration::from_secs(10);

/// A directory whose content all belongs to one workload, which may have others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanTarget {
    pub workload: String,
    pub dir: PathBuf,
}

/// What a finished pass found below a directory, the directory included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    /// On disk, holes not counted.
    pub bytes: u64,
    /// Files with several names count once.
    pub inodes: u64,
    /// Of the file system, as `st_dev`.
    pub device: u64,
    /// Directories that could not be read.
    pub unreadable: u64,
    /// When its round began. What was made later may be in it or not.
    pub began: Timestamp,
    /// The round as [`Scanner::begin`] named it; 0: one that began before this process.
    pub round: u64,
}

impl Scanned {
    /// The two together, as old as the older one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            inodes: self.inodes + other.inodes,
            device: self.device,
            unreadable: self.unreadable + other.unreadable,
            began: self.began.min(other.began),
            round: self.round.min(other.round),
        }
    }
}

/// What is not there has no entry.
pub type ScanResult = BTreeMap<ScanTarget, Scanned>;

/// Says what there is to scan, anew for each round; those of one workload together. It is asked on the scanning thread, and may
/// take its time.
pub type Targets = Box<dyn FnMut() -> Vec<ScanTarget> + Send>;

/// How much of one processor a scan takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Of a host's.
    Tenth,
    /// Where a tenth is all that the container has.
    TwentyFifth,
}

impl Share {
    /// How long it rests, as a multiple of its work.
    fn rest(self) -> u32 {
        match self {
            Self::Tenth => 9,
            Self::TwentyFifth => 24,
        }
    }
}

/// The bytes below a directory, walked now in the background; `None`: told to stop. What is not there holds nothing: it may not
/// have been made yet.
pub(super) fn bytes_below(dir: &Path, share: Share, stop: &Arc<AtomicBool>) -> Option<u64> {
    let Ok(top) = Top::open(dir) else {
        return Some(0);
    };
    let mut throttle = Throttle::background(share.rest(), Arc::clone(stop));
    let mut walk = Walk::begin(&top);
    while walk.step(&top, &mut throttle) {}
    walk.is_done().then_some(walk.bytes)
}

/// Scans while it lives.
#[derive(Debug)]
pub struct Scanner {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    stop: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct State {
    /// The last round that was asked for.
    round: u64,
    is_running: bool,
    ended: Option<Timestamp>,
    found: ScanResult,
    /// Every directory has been gone through once: some figures without the others would make a victim
    /// of whoever happens to be known.
    is_complete: bool,
}

impl Scanner {
    /// Waits for the first [`Self::begin`]. A scan that `file` says was under way goes on at once.
    pub fn start(mut targets: Targets, share: Share, file: Option<PathBuf>) -> io::Result<Self> {
        let saved = file.as_deref().map(SavedScan::read).unwrap_or_default();
        let first = targets();
        let unfinished = saved.unfinished(&first);
        let shared = Arc::new(Shared::default());
        {
            let mut state = shared.lock();
            state.found = saved.found(&first);
            state.is_complete = !first.is_empty() && state.found.len() == first.len();
            state.is_running = unfinished.is_some();
        }
        let worker = Worker {
            targets,
            share,
            file,
            shared: Arc::clone(&shared),
        };
        std::thread::Builder::new()
            .name("eviction-scan".into())
            .spawn(move || worker.work(unfinished))?;
        Ok(Self { shared })
    }

    /// Lets a round begin now, unless one is running or the last one ended less than `rest` ago. The
    /// number names it. Like [`Self::found`] it never waits for the scanning thread, which may not run
    /// for a long time on a busy machine, whatever it holds.
    pub fn begin(&self, rest: Duration) -> Option<u64> {
        let mut state = self.shared.try_lock().filter(|s| s.is_ready(rest))?;
        state.is_running = true;
        state.round += 1;
        self.shared.changed.notify_one();
        Some(state.round)
    }

    /// Would [`Self::begin`] begin a round now?
    pub fn is_ready(&self, rest: Duration) -> bool {
        self.shared.try_lock().is_some_and(|s| s.is_ready(rest))
    }

    /// `None`: not to be had at this moment.
    pub fn found(&self) -> Option<ScanResult> {
        let state = self.shared.try_lock().filter(|s| s.is_complete)?;
        Some(state.found.clone())
    }

    /// One round, now, as fast as it goes: for whoever waits for the answer.
    pub fn once(targets: &[ScanTarget]) -> ScanResult {
        let began = clock::now();
        let found = targets.iter().filter_map(|target| {
            let top = Top::open(&target.dir).ok()?;
            let mut walk = Walk::begin(&top);
            let mut throttle = Throttle::unlimited();
            while walk.step(&top, &mut throttle) {}
            Some((target.clone(), scanned(&walk, &top, began, 1)))
        });
        found.collect()
    }
}

impl Drop for Scanner {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        // Whoever is about to wait has the lock or sees the flag after it.
        let _state = self.shared.lock();
        self.shared.changed.notify_one();
    }
}

impl State {
    fn is_ready(&self, rest: Duration) -> bool {
        let is_rested = self
            .ended
            .is_none_or(|ended| clock::elapsed_since(ended) >= rest);
        !self.is_running && is_rested
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(state)) => Some(state.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// The thread's own part.
struct Worker {
    targets: Targets,
    share: Share,
    file: Option<PathBuf>,
    shared: Arc<Shared>,
}

/// A round and how far it is.
struct Round {
    number: u64,
    began: Timestamp,
    /// The target it is at, and that target's pass if it was put aside.
    at: usize,
    walk: Option<Walk>,
}

impl Worker {
    fn work(mut self, unfinished: Option<SavedWalk>) {
        if let Err(e) = schedule_last() {
            tracing::warn!("the scan of the workloads' directories runs at ordinary priority: {e}");
        }
        let mut next = unfinished.map(|saved| saved.round());
        loop {
            let round = match next.take() {
                Some(round) => round,
                None => match self.wait() {
                    Some(number) => Round {
                        number,
                        began: clock::now(),
                        at: 0,
                        walk: None,
                    },
                    None => return,
                },
            };
            let targets = (self.targets)();
            self.run(round, &targets);
            let mut state = self.shared.lock();
            state.is_running = false;
            // Where nothing is known yet nothing was scanned: the next round is not to wait.
            state.ended = (!targets.is_empty()).then(clock::now);
        }
    }

    /// The number of the next round; `None`: it is over.
    fn wait(&self) -> Option<u64> {
        let mut state = self.shared.lock();
        while !state.is_running {
            if self.shared.is_stopped() {
                return None;
            }
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Some(state.round)
    }

    fn run(&self, mut round: Round, targets: &[ScanTarget]) {
        let mut throttle = Throttle::background(self.share.rest(), Arc::clone(&self.shared.stop));
        while let Some(target) = targets.get(round.at) {
            let top = Top::open(&target.dir);
            let mut state = match &top {
                Ok(top) => round.walk.take().unwrap_or_else(|| Walk::begin(top)),
                Err(_) => Walk::default(),
            };
            if let Ok(top) = &top {
                let mut put_down = clock::now();
                while state.step(top, &mut throttle) {
                    if clock::elapsed_since(put_down) >= SAVE_EVERY {
                        self.save(Some(SavedWalk::new(target, top, &round, &state)));
                        put_down = clock::now();
                    }
                }
                if !state.is_done() {
                    self.save(Some(SavedWalk::new(target, top, &round, &state)));
                    return;
                }
            }
            let mut shared = self.shared.lock();
            match &top {
                Ok(top) => {
                    let found = scanned(&state, top, round.began, round.number);
                    shared.found.insert(target.clone(), found);
                }
                Err(_) => {
                    shared.found.remove(target);
                }
            }
            drop(shared);
            round.at += 1;
        }
        let left: BTreeSet<_> = targets.iter().collect();
        let mut shared = self.shared.lock();
        shared.found.retain(|target, _| left.contains(target));
        shared.is_complete |= !targets.is_empty();
        drop(shared);
        self.save(None);
    }

    fn save(&self, walk: Option<SavedWalk>) {
        let Some(file) = &self.file else { return };
        let found = self.shared.lock().found.clone();
        if let Err(e) = SavedScan::new(&found, walk).write(file) {
            tracing::warn!("the scan begins anew after a restart: {e}");
        }
    }
}

fn scanned(walk: &Walk, top: &Top, began: Timestamp, round: u64) -> Scanned {
    Scanned {
        bytes: walk.bytes,
        inodes: walk.inodes,
        device: top.file_system(),
        unreadable: walk.unreadable,
        began,
        round,
    }
}
