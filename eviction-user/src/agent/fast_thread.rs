//! The thread that looks, decides and kills. Nothing else runs on it, so that nothing else can delay it.

use crate::sys::heap;
use crate::sys::realtime::{self, RealtimeError, Scheduled};
use nix::errno::Errno;
use std::io;
use std::thread::JoinHandle;

/// Starts `body` on a thread of its own with a runtime for that thread alone.
pub fn start<F, T>(body: F) -> io::Result<JoinHandle<io::Result<T>>>
where
    F: AsyncFnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    std::thread::Builder::new()
        .name("eviction-fast".into())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()?;
            Ok(runtime.block_on(body()))
        })
}

/// What the thread got of what it asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Privileges {
    pub realtime: Result<Scheduled, RealtimeError>,
    pub memory_lock: Result<(), Errno>,
}

impl Privileges {
    /// From here on the calling thread runs before all ordinary ones, and what the process has touched
    /// stays in memory. To be called when all slow preparation is done.
    pub fn take() -> Self {
        heap::give_back();
        Self {
            realtime: realtime::schedule_first(),
            memory_lock: realtime::lock_memory(),
        }
    }
}
