//! The writing thread: takes what the fast thread hands over, and copes with a disk that refuses.

use super::frame::{Frame, Gap};
use super::recorder::Message;
use super::writer::{WriteError, Writer};
use crate::model::Action;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// What led to an eviction is wanted most when the machine does not survive it, so it is synced; but not
/// before what followed at once is written too, which survives at least the end of the process.
const QUIET: Duration = Duration::from_millis(100);

/// The writing thread.
pub(super) struct Drain {
    writer: Writer,
    wanted: Arc<AtomicBool>,
    /// Writing has failed: inputs missed since then. Ends with a checkpoint that can be written.
    failing: Option<u64>,
    sync_due: bool,
}

impl Drain {
    pub(super) fn new(writer: Writer, wanted: Arc<AtomicBool>) -> Self {
        Self {
            writer,
            wanted,
            failing: None,
            sync_due: false,
        }
    }

    /// Writes until the recorder is gone.
    pub(super) fn run(mut self, messages: Receiver<Message>) {
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
impl InHand {
    pub(super) fn new(drain: Drain, messages: Receiver<Message>) -> Self {
        Self {
            drain,
            messages,
            set_aside: None,
        }
    }

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
