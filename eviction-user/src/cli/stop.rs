//! The end: SIGTERM, SIGINT, a time limit, or a thread that has ended by itself.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How soon the end of the thread is noticed.
const CHECK: Duration = Duration::from_millis(50);

/// Blocks until the process is told to stop, `limit` has passed, or `thread` has ended.
pub(super) fn wait_for<T>(thread: &JoinHandle<T>, limit: Option<Duration>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let ended = async {
            while !thread.is_finished() {
                tokio::time::sleep(CHECK).await;
            }
        };
        let over = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = ended => {}
            () = over => {}
        }
        Ok(())
    })
}
