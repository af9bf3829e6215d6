//! The fast thread's side: hands copies over and never waits. And the thread that writes them.

use super::directory::{DirectoryError, Limits, Store};
use super::frame::{Frame, Gap, Told};
use super::note::Note;
use super::writer::{RunFacts, WriteError, Writer};
use crate::model::{Action, Timestamp};
use crate::policy::cycle::LayoutUnknown;
use crate::policy::engine::Checkpoint;
use crate::policy::{Engine, Input};
use crate::ports::Entry;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// What led to an eviction is wanted most when the machine does not survive it, so it is synced; but not
/// before what followed at once is written too, which survives at least the end of the process.
const QUIET: Duration = Duration::from_millis(100);
/// More than any burst; what finds no room is lost, and counted.
const CAPACITY: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the recording thread does not start: {0}")]
    Thread(io::Error),
}

/// What goes through the queue.
#[derive(Debug)]
enum Message {
    Handled(Box<Told>, Option<Vec<Action>>),
    Note(Note),
    /// The state before the next input, and how many inputs are missing before it.
    Checkpoint(Box<Checkpoint>, u64),
}

#[derive(Debug)]
pub struct Recorder {
    queue: SyncSender<Message>,
    /// The writer wants a checkpoint: its file is full, or it could not write.
    wanted: Arc<AtomicBool>,
    /// Inputs are missing since the last checkpoint that went through.
    lost: u64,
    lost_notes: u64,
}

impl Recorder {
    /// Makes the first file, so that what is wrong with the directory is known at once, and starts the
    /// thread that writes. The thread ends when the recorder is dropped and all is written.
    pub fn start(
        directory: &Path,
        limits: Limits,
        facts: RunFacts,
    ) -> Result<(Self, JoinHandle<()>), StartError> {
        let writer = Writer::create(Store::open(directory, limits)?, facts)?;
        let (recorder, messages) = Self::with_room_for(CAPACITY);
        let drain = Drain {
            writer,
            wanted: recorder.wanted.clone(),
            failing: None,
            sync_due: false,
        };
        let thread = std::thread::Builder::new()
            .name("eviction-record".into())
            .spawn(move || drain.run(messages))
            .map_err(StartError::Thread)?;
        Ok((recorder, thread))
    }

    fn with_room_for(capacity: usize) -> (Self, Receiver<Message>) {
        let (queue, messages) = sync_channel(capacity);
        let recorder = Self {
            queue,
            wanted: Arc::default(),
            lost: 0,
            lost_notes: 0,
        };
        (recorder, messages)
    }

    /// Lets the engine handle an input, and records both.
    pub fn handle(
        &mut self,
        engine: &mut Engine,
        now: Timestamp,
        wake: &'static str,
        input: Input,
    ) -> Result<Vec<Action>, LayoutUnknown> {
        self.offer_checkpoint(engine);
        let told = Told {
            at: now,
            wake: wake.into(),
            input: input.clone(),
        };
        let decided = engine.handle(now, input);
        let copy = decided.as_ref().ok().cloned();
        // Behind a gap no input is of use until the state that it meets is known.
        if self.lost > 0 || !self.send(Message::Handled(Box::new(told), copy)) {
            self.lost += 1;
        }
        decided
    }

    pub fn note(&mut self, entry: &Entry) {
        if self.lost_notes > 0
            && self.send(Message::Note(Note::NotesLost {
                count: self.lost_notes,
            }))
        {
            self.lost_notes = 0;
        }
        if let Some(note) = Note::of(entry)
            && !self.send(Message::Note(note))
        {
            self.lost_notes += 1;
        }
    }

    fn offer_checkpoint(&mut self, engine: &Engine) {
        if self.lost == 0 && !self.wanted.swap(false, Ordering::Relaxed) {
            return;
        }
        let checkpoint = Box::new(engine.checkpoint());
        if self.send(Message::Checkpoint(checkpoint, self.lost)) {
            self.lost = 0;
        } else if self.lost == 0 {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    fn send(&self, message: Message) -> bool {
        self.queue.try_send(message).is_ok()
    }
}

/// The writing thread.
struct Drain {
    writer: Writer,
    wanted: Arc<AtomicBool>,
    /// Writing has failed: inputs missed since then. Ends with a checkpoint that can be written.
    failing: Option<u64>,
    sync_due: bool,
}

impl Drain {
    /// Writes until the recorder is gone.
    fn run(mut self, messages: Receiver<Message>) {
        loop {
            let message = if self.sync_due {
                messages.recv_timeout(QUIET)
            } else {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match message {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => self.sync(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if self.sync_due {
            self.sync();
        }
    }

    fn sync(&mut self) {
        self.sync_due = false;
        if let Err(error) = self.writer.sync() {
            tracing::warn!(%error, "the recording may not survive a crash of the machine");
        }
    }

    fn take(&mut self, message: Message) {
        self.write_if_possible(message);
        if self.failing.is_some() || self.writer.is_full() {
            self.wanted.store(true, Ordering::Relaxed);
        }
    }

    fn write_if_possible(&mut self, message: Message) {
        let inputs = u64::from(matches!(message, Message::Handled(..)));
        let resumes = matches!(message, Message::Checkpoint(..));
        if let Some(missed) = &mut self.failing
            && !resumes
        {
            *missed += inputs;
            return;
        }
        match self.write(message) {
            Ok(()) => {
                if self.failing.take().is_some() {
                    tracing::info!("recording goes on");
                }
            }
            Err(error) => {
                if self.failing.is_none() {
                    tracing::warn!(%error, "recording is interrupted until it can be written again");
                }
                self.failing = Some(self.failing.unwrap_or(0) + inputs);
            }
        }
    }

    fn write(&mut self, message: Message) -> Result<(), WriteError> {
        match message {
            Message::Note(note) => self.writer.append(&[Frame::Note(note)]),
            Message::Handled(told, actions) => {
                let evicts = actions
                    .iter()
                    .flatten()
                    .any(|action| matches!(action, Action::Evict(_)));
                self.sync_due |= evicts;
                self.writer
                    .append(&[Frame::Input(told), Frame::Decisions(actions)])
            }
            Message::Checkpoint(resume, lost) => {
                if self.writer.is_full() {
                    self.writer.rotate((*resume).clone())?;
                }
                let lost = lost + self.failing.unwrap_or(0);
                if lost == 0 && self.failing.is_none() {
                    return Ok(());
                }
                let gap = Gap {
                    lost,
                    resume: *resume,
                };
                self.writer.append(&[Frame::Gap(Box::new(gap))])
            }
        }
    }
}

/// Both sides on one thread, so that a test decides when the writer comes to its work.
#[cfg(test)]
pub(super) struct InHand {
    drain: Drain,
    messages: Receiver<Message>,
    set_aside: Option<std::fs::File>,
}

#[cfg(test)]
impl Recorder {
    pub(super) const ROOM_IN_HAND: usize = 5;

    pub(super) fn in_hand(directory: &Path, limits: Limits, facts: RunFacts) -> (Self, InHand) {
        let store = Store::open(directory, limits).expect("a test's directory can be opened");
        let (recorder, messages) = Self::with_room_for(Self::ROOM_IN_HAND);
        let drain = Drain {
            writer: Writer::create(store, facts).expect("a test's file can be written"),
            wanted: recorder.wanted.clone(),
            failing: None,
            sync_due: false,
        };
        let in_hand = InHand {
            drain,
            messages,
            set_aside: None,
        };
        (recorder, in_hand)
    }
}

#[cfg(test)]
impl InHand {
    pub(super) fn catch_up(&mut self) {
        for message in self.messages.try_iter() {
            self.drain.take(message);
        }
    }

    /// From here on the disk is full, or no longer.
    pub(super) fn fail_writes(&mut self, fail: bool) {
        if fail && self.set_aside.is_none() {
            let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
            let full = full.expect("every Linux has /dev/full");
            self.set_aside = Some(self.drain.writer.swap_file(full));
        } else if !fail && let Some(file) = self.set_aside.take() {
            self.drain.writer.swap_file(file);
        }
    }
}
