//! How far a helper came: a page that it shares with whoever started it, and that stays when it is killed.

use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::{File, OpenOptions};
use std::io;
use std::num::NonZeroUsize;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU64};

const SIZE: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

#[repr(C)]
pub(in crate::bench) struct Figures {
    /// When the line was crossed (CLOCK_MONOTONIC, ns): just before the page that did it. 0: not yet.
    pub(in crate::bench) crossed_ns: AtomicI64,
    /// When the last page was touched.
    pub(in crate::bench) last_ns: AtomicI64,
    /// Pages touched since the line was crossed, that one included.
    pub(in crate::bench) past_pages: AtomicU64,
}

pub(in crate::bench) struct Progress {
    page: NonNull<Figures>,
    file: File,
}

impl Progress {
    pub(in crate::bench) fn create() -> io::Result<Self> {
        let file = File::from(memfd_create("eviction-bench", MFdFlags::MFD_CLOEXEC)?);
        file.set_len(SIZE.get() as u64)?;
        Self::map(file)
    }

    /// The one that another process has created.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Self::map(OpenOptions::new().read(true).write(true).open(path)?)
    }

    fn map(file: File) -> io::Result<Self> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh shared mapping of a file that is as long as the mapping; no address is forced.
        let page = unsafe { mmap(None, SIZE, protection, MapFlags::MAP_SHARED, &file, 0) }?;
        Ok(Self {
            page: page.cast(),
            file,
        })
    }

    /// Where another process finds it.
    pub(in crate::bench) fn path(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }

    pub(in crate::bench) fn figures(&self) -> &Figures {
        // SAFETY: mapped for the life of `self`, page-aligned, zero-filled at first: valid atomics.
        unsafe { self.page.as_ref() }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; references into it borrow `self`.
        if let Err(error) = unsafe { munmap(self.page.cast(), SIZE.get()) } {
            tracing::warn!(%error, "a page cannot be unmapped");
        }
    }
}
