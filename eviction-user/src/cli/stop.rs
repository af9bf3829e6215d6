//! The end: SIGTERM, SIGINT, a time limit, or a thread that has ended by itself.

use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// Held by a thread for as long as it runs, however it ends.
pub(super) struct Alive {
    _thread: Sender<()>,
}

/// Ready once the thread that holds its [`Alive`] has ended: nobody has to look after it.
pub(super) struct Ended(Receiver<()>);

pub(super) fn watched() -> (Alive, Ended) {
    let (thread, ended) = channel();
    (Alive { _thread: thread }, Ended(ended))
}

/// Blocks until the process is told to stop, `limit` has passed, or the watched thread has ended.
pub(super) fn wait_for(ended: Ended, limit: Option<Duration>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let over = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = ended.0 => {}
            () = over => {}
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_with_the_thread_also_when_that_panics() {
        let (alive, ended) = watched();
        let thread = std::thread::spawn(move || {
            let _alive = alive;
            panic!("as this test wants it");
        });
        wait_for(ended, None).unwrap();
        assert!(thread.join().is_err());
    }
}
