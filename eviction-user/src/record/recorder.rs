//! The fast thread's side: hands copies over and never waits.

use super::directory::{DirectoryError, Limits, Store};
use super::drain::Drain;
#[cfg(test)]
use super::drain::InHand;
use super::frame::Told;
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
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

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
pub(super) enum Message {
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
        let drain = Drain::new(writer, recorder.wanted.clone());
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

    /// The engine is in the middle of something: its state goes first.
    pub fn begins_with_state(&self) {
        self.wanted.store(true, Ordering::Relaxed);
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

#[cfg(test)]
impl Recorder {
    pub(super) const ROOM_IN_HAND: usize = 5;

    pub(super) fn in_hand(directory: &Path, limits: Limits, facts: RunFacts) -> (Self, InHand) {
        let store = Store::open(directory, limits).expect("a test's directory can be opened");
        let (recorder, messages) = Self::with_room_for(Self::ROOM_IN_HAND);
        let writer = Writer::create(store, facts).expect("a test's file can be written");
        let drain = Drain::new(writer, recorder.wanted.clone());
        (recorder, InHand::new(drain, messages))
    }
}
