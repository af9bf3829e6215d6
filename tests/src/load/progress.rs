//! The page that a load shares with whoever watches it.

use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::fs::OpenOptions;
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const SIZE: usize = 4096;

/// Counters at the start of the shared page.
#[repr(C)]
pub struct ProgressPage {
    /// Bytes touched, or inodes made.
    pub done: AtomicU64,
    /// `done` value at which `mark_ns` is to be taken; set by the watcher before the load starts, 0 = never.
    pub mark_at: AtomicU64,
    /// When `done` reached `mark_at`.
    pub mark_ns: AtomicU64,
    /// When `done` moved last.
    pub last_ns: AtomicU64,
    /// 1 once the file system refused (ENOSPC).
    pub refused: AtomicU64,
}

impl ProgressPage {
    /// Books one more step that ended at `done`.
    pub fn advance(&self, done: u64, now_ns: u64) {
        let mark = self.mark_at.load(Ordering::Relaxed);
        if mark > 0 && done >= mark && self.mark_ns.load(Ordering::Relaxed) == 0 {
            self.mark_ns.store(now_ns, Ordering::Relaxed);
        }
        self.last_ns.store(now_ns, Ordering::Relaxed);
        self.done.store(done, Ordering::Release);
    }
}

/// A mapped [`ProgressPage`]; the file keeps the values when the writer is killed.
pub struct Progress(NonNull<ProgressPage>);

// SAFETY: the page holds atomics only and stays mapped as long as this value lives.
unsafe impl Send for Progress {}
// SAFETY: as above: atomics may be shared.
unsafe impl Sync for Progress {}

impl Progress {
    /// Nobody watches.
    pub fn unshared() -> io::Result<Self> {
        let size = NonZeroUsize::new(SIZE).expect("not zero");
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh private mapping that nothing else refers to; no address is forced.
        let page = unsafe { mmap_anonymous(None, size, access, MapFlags::MAP_PRIVATE) }?;
        Ok(Self(page.cast()))
    }

    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        file.set_len(SIZE as u64)?;
        let size = NonZeroUsize::new(SIZE).expect("not zero");
        // SAFETY: a fresh shared mapping of a file that is as long as the mapping; no address is forced.
        let page = unsafe {
            mmap(
                None,
                size,
                ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
                MapFlags::MAP_SHARED,
                &file,
                0,
            )
        }?;
        Ok(Self(page.cast()))
    }

    pub fn page(&self) -> &ProgressPage {
        // SAFETY: mapped for the life of the process, page-aligned, zero-filled: valid atomics.
        unsafe { self.0.as_ref() }
    }
}
