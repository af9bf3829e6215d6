//! File systems that may not answer. `statfs` of a network mount whose server is gone, or of a FUSE mount whose daemon hangs,
//! blocks its caller for as long as that lasts, and no signal ends it. So such a file system is opened and read on threads that
//! nobody waits for: who looks takes the last reading that was completed.

use super::filesystem::{FileSystem, FileSystemError, FileSystemUse};
use super::{clock, realtime};
use crate::model::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, channel, sync_channel,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A reading that is older counts as none: 10 s is the kubelet's own interval, so its figures are as old as that at times.
/// Also how long the start waits for a file system.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Read at least so often, so that a figure is never old because nobody asked.
const PERIOD: Duration = Duration::from_secs(1);

/// What a reading came to.
pub(super) type Outcome = Result<FileSystemUse, FileSystemError>;

#[derive(Debug, Clone)]
struct Reading {
    at: Timestamp,
    outcome: Outcome,
}

/// Reads one file system on a thread of its own, which ends with this; if it hangs then, once the kernel lets it go.
#[derive(Debug)]
pub(super) struct Distant {
    asks: SyncSender<()>,
    shared: Arc<Mutex<Reading>>,
    /// The last reading that was taken out of `shared`: locked by whoever looks alone.
    seen: Mutex<Reading>,
}

impl Distant {
    /// `first`: what is known already.
    pub(super) fn start(
        first: FileSystemUse,
        read: impl Fn() -> Outcome + Send + 'static,
    ) -> std::io::Result<Self> {
        let reading = Reading {
            at: clock::now(),
            outcome: Ok(first),
        };
        let shared = Arc::new(Mutex::new(reading.clone()));
        let (asks, asked) = sync_channel(1);
        let target = Arc::clone(&shared);
        spawn("eviction-statfs", move || {
            while asked.recv_timeout(PERIOD) != Err(RecvTimeoutError::Disconnected) {
                // Of the moment it was begun: what is used up meanwhile may be in it or not.
                let at = clock::now();
                let outcome = read();
                *lock(&target) = Reading { at, outcome };
            }
        })?;
        Ok(Self {
            asks,
            shared,
            seen: Mutex::new(reading),
        })
    }

    /// The last reading and when it was begun, without waiting for anybody; asks for the next one.
    pub(super) fn last(&self) -> (Timestamp, Outcome) {
        // Full: it has been asked and is not done yet.
        let _ = self.asks.try_send(());
        let mut seen = lock(&self.seen);
        // The thread that writes runs after this one: if it holds the lock at this moment the reading before has to do.
        match self.shared.try_lock() {
            Ok(newest) => seen.clone_from(&newest),
            Err(TryLockError::Poisoned(newest)) => seen.clone_from(&newest.into_inner()),
            Err(TryLockError::WouldBlock) => {}
        }
        (seen.at, seen.outcome.clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file system that is being opened.
#[derive(Debug)]
pub struct Opening {
    path: PathBuf,
    began: Timestamp,
    found: Receiver<Result<FileSystem, FileSystemError>>,
}

impl Opening {
    pub fn start(path: &Path) -> Self {
        Self::with(path, FileSystem::at)
    }

    fn with(
        path: &Path,
        open: impl FnOnce(&Path) -> Result<FileSystem, FileSystemError> + Send + 'static,
    ) -> Self {
        let (tell, found) = channel();
        let place = path.to_owned();
        // Without a thread there is no answer, which is what is said then.
        let _ = spawn("eviction-open", move || {
            // Nobody may be there any more to hear it.
            let _ = tell.send(open(&place));
        });
        Self {
            path: path.to_owned(),
            began: clock::now(),
            found,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// For how long it has not answered.
    pub fn age(&self) -> Duration {
        clock::elapsed_since(self.began)
    }

    /// What it came to, once: `None`: nothing yet.
    pub fn done(&self) -> Option<Result<FileSystem, FileSystemError>> {
        match self.found.try_recv() {
            Ok(found) => Some(found),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(self.no_answer())),
        }
    }

    /// For whoever can do nothing without it.
    pub fn wait(self) -> Result<FileSystem, FileSystemError> {
        self.wait_for(PATIENCE)
    }

    fn wait_for(self, patience: Duration) -> Result<FileSystem, FileSystemError> {
        match self.found.recv_timeout(patience) {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(self.no_answer())
            }
        }
    }

    pub fn no_answer(&self) -> FileSystemError {
        FileSystemError::NoAnswer {
            path: self.path.clone(),
        }
    }
}

/// An ordinary thread, also where a real-time one asks for it.
fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let body = move || {
        // Refused to nobody.
        let _ = realtime::schedule_ordinarily();
        work();
    };
    std::thread::Builder::new().name(name.into()).spawn(body)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(available_bytes: u64) -> FileSystemUse {
        FileSystemUse {
            time: clock::now(),
            available_bytes,
            capacity_bytes: 100,
            inodes: 0,
            inodes_free: 0,
        }
    }

    #[test]
    fn the_last_reading_is_there_at_once_while_the_next_one_hangs() {
        let (answer, answers) = channel();
        let distant = Distant::start(figures(1), move || answers.recv().unwrap()).unwrap();
        let available = || distant.last().1.unwrap().available_bytes;
        let began = clock::now();
        let first = distant.last().0;
        assert_eq!((available(), available()), (1, 1));
        assert!(clock::elapsed_since(began) < Duration::from_secs(1));
        answer.send(Ok(figures(2))).unwrap();
        while available() == 1 {
            std::thread::yield_now();
        }
        assert_eq!(available(), 2);
        assert!(distant.last().0 >= first);
    }

    #[test]
    fn what_does_not_open_is_an_error_that_names_it_and_nobody_waits_for_ever() {
        let (go, wait) = channel::<()>();
        let opening = Opening::with(Path::new("/hung"), move |path| {
            let _ = wait.recv();
            FileSystem::at(path)
        });
        assert!(opening.done().is_none());
        let error = opening.wait_for(Duration::from_millis(20)).unwrap_err();
        assert!(error.to_string().contains("/hung"), "{error}");
        drop(go);
    }

    #[test]
    fn what_opens_is_told_once() {
        let opening = Opening::start(Path::new("/"));
        let found = loop {
            match opening.done() {
                Some(found) => break found,
                None => std::thread::yield_now(),
            }
        };
        assert_eq!(found.unwrap().path(), Path::new("/"));
    }
}
