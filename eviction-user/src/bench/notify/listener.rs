//! A thread that waits for one source, round by round.

use super::{LISTENING, Source};
use crate::bench::BenchError;
use crate::model::Timestamp;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The measuring side.
pub(super) struct Listener {
    pub(super) source: Source,
    lines: UnboundedSender<u64>,
    said: Receiver<Said>,
}

enum Said {
    /// It works, by this hook or file.
    Ready(&'static str),
    /// The crossing may come.
    Armed,
    /// When it was woken because of the crossing; never: it missed it.
    Heard(Vec<Timestamp>),
    Failed(BenchError),
}

/// The thread's side. It ends when the other one is gone.
pub(super) struct Ears {
    /// Where the line is in the next round, in bytes.
    pub(super) lines: UnboundedReceiver<u64>,
    say: Sender<Said>,
}

impl Listener {
    pub(super) fn new(source: Source) -> (Self, Ears) {
        let (lines, rounds) = unbounded_channel();
        let (say, said) = channel();
        let listener = Self {
            source,
            lines,
            said,
        };
        let ears = Ears { lines: rounds, say };
        (listener, ears)
    }

    /// Waits until the thread is ready to listen; by which hook or file.
    pub(super) fn ready(&self) -> Result<&'static str, BenchError> {
        match self.next()? {
            Said::Ready(rung) => Ok(rung),
            _ => Err(BenchError::ListenerEnded(self.source.name())),
        }
    }

    pub(super) fn arm(&self, line: u64) -> Result<(), BenchError> {
        // A listener that is gone shows when it is asked.
        let _ = self.lines.send(line);
        self.next().map(drop)
    }

    pub(super) fn heard(&self) -> Result<Vec<Timestamp>, BenchError> {
        match self.next()? {
            Said::Heard(times) => Ok(times),
            _ => Err(BenchError::ListenerEnded(self.source.name())),
        }
    }

    fn next(&self) -> Result<Said, BenchError> {
        match self.said.recv() {
            Ok(Said::Failed(error)) => Err(error),
            Ok(said) => Ok(said),
            Err(_) => Err(BenchError::ListenerEnded(self.source.name())),
        }
    }
}

impl Ears {
    // Nobody listens to the last words of a benchmark that was given up.

    pub(super) fn ready(&self, rung: &'static str) {
        let _ = self.say.send(Said::Ready(rung));
    }

    pub(super) fn armed(&self) {
        let _ = self.say.send(Said::Armed);
    }

    pub(super) fn heard(&self, times: Vec<Timestamp>) {
        let _ = self.say.send(Said::Heard(times));
    }

    pub(super) fn failed(&self, error: BenchError) {
        let _ = self.say.send(Said::Failed(error));
    }

    /// A thread that is told a line, says when it is armed, and then what it heard.
    pub(super) fn listen_on_thread(
        mut self,
        prepare: impl FnOnce() -> Result<&'static str, BenchError> + Send + 'static,
        mut listen: impl FnMut(u64, &mut dyn FnMut()) -> Result<Vec<Timestamp>, BenchError>
        + Send
        + 'static,
    ) -> Result<(), BenchError> {
        let name = format!("bench-{:p}", &self);
        let body = move || {
            match prepare() {
                Ok(rung) => self.ready(rung),
                Err(error) => return self.failed(error),
            }
            while let Some(line) = self.lines.blocking_recv() {
                match listen(line, &mut || self.armed()) {
                    Ok(times) => self.heard(times),
                    Err(error) => return self.failed(error),
                }
            }
        };
        let thread = std::thread::Builder::new().name(name).spawn(body);
        thread
            .map(drop)
            .map_err(BenchError::system("start a thread"))
    }
}

/// Waits until `file` is ready; `false` when it was not for as long as a round may last.
pub(super) fn wait_for(file: BorrowedFd<'_>, flags: PollFlags) -> Result<bool, BenchError> {
    let limit = PollTimeout::try_from(LISTENING).unwrap_or(PollTimeout::MAX);
    let ready = poll(&mut [PollFd::new(file, flags)], limit);
    Ok(ready.map_err(|e| BenchError::system("wait for an event")(io::Error::from(e)))? > 0)
}
