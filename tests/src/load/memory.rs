//! Anonymous memory, touched page by page.

use super::{ProgressPage, keep_pace, now_ns};
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
use std::io;
use std::num::NonZeroUsize;

const PAGE: usize = 4096;
/// Touched without a look at the clock for the pace; each page is told of.
const STEP: usize = 256 * 1024;

/// Maps `bytes` and touches them at `rate` bytes a second (0: as fast as it goes), then waits to be killed.
pub fn hog(bytes: u64, rate: u64, progress: &ProgressPage) -> io::Result<std::convert::Infallible> {
    let began = now_ns();
    let mut done = 0;
    while done < bytes {
        touch(STEP, |touched| {
            progress.advance(done + touched as u64, now_ns());
        })?;
        done += STEP as u64;
        if rate > 0 {
            keep_pace(began, done, rate);
        }
    }
    loop {
        std::thread::park();
    }
}

/// Takes `bytes` at once and keeps them: a workload that behaves.
pub fn hold(bytes: u64, progress: &ProgressPage) -> io::Result<std::convert::Infallible> {
    hog(bytes, 0, progress)
}

fn touch(bytes: usize, mut tell: impl FnMut(usize)) -> io::Result<()> {
    let length = NonZeroUsize::new(bytes).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: a fresh private mapping that nothing else refers to; it is never unmapped.
    let start = unsafe {
        mmap_anonymous(
            None,
            length,
            ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
            MapFlags::MAP_PRIVATE,
        )
    }?;
    for offset in (0..bytes).step_by(PAGE) {
        // SAFETY: `offset` lies within the mapping made above.
        unsafe { start.cast::<u8>().as_ptr().add(offset).write_volatile(1) };
        tell(offset + PAGE);
    }
    Ok(())
}
