//! The thread that looks, decides and kills. Nothing else runs on it, so that nothing else can delay it.

use crate::sys::realtime::{self, RealtimeError};
use nix::errno::Errno;
use std::io;
use std::thread::JoinHandle;

/// What the thread got of what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privileges {
    pub realtime: Result<(), RealtimeError>,
    pub memory_lock: Result<(), Errno>,
}

/// Starts `body` on a thread of its own: SCHED_FIFO and locked memory where they are permitted, a
/// runtime for this one thread.
pub fn start<F, T>(body: F) -> io::Result<JoinHandle<io::Result<T>>>
where
    F: AsyncFnOnce(Privileges) -> T + Send + 'static,
    T: Send + 'static,
{
    std::thread::Builder::new()
        .name("eviction-fast".into())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            let privileges = Privileges {
                realtime: realtime::schedule_first(),
                memory_lock: realtime::lock_memory(),
            };
            Ok(runtime.block_on(body(privileges)))
        })
}
