//! The process that takes memory: it crosses a line, and knows when.

use super::{Crossing, Progress};
use crate::model::Timestamp;
use crate::sys::cgroup::{PAGE_SIZE, parse};
use crate::sys::clock;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// From here on the counter is read after each page: more than what charging ahead (64 pages a CPU) and page tables can
/// add beside the pages themselves.
const NEAR: u64 = 1 << 20;

/// Shorter waits cost more than they are worth: the timer slack alone is 50 us.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);
const PAGES_BETWEEN_CLOCKS: u64 = 8;

/// How much a breathing process holds before it gives all of it back.
const BREATH: u64 = 32 << 20;

/// Anonymous memory in small pages.
pub(super) struct Memory {
    start: NonNull<u8>,
    length: NonZeroUsize,
    touched: usize,
}

impl Memory {
    pub(super) fn map(bytes: u64) -> io::Result<Self> {
        let length = usize::try_from(bytes).ok().and_then(NonZeroUsize::new);
        let length = length.ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
        // SAFETY: a fresh private mapping that nothing else refers to.
        let start = unsafe { mmap_anonymous(None, length, protection, flags) }?.cast();
        let memory = Self {
            start,
            length,
            touched: 0,
        };
        // A kernel without huge pages refuses the advice, and does not need it.
        let _ = memory.advise(MmapAdvise::MADV_NOHUGEPAGE);
        Ok(memory)
    }

    fn advise(&self, advice: MmapAdvise) -> nix::Result<()> {
        // SAFETY: the whole mapping; nobody holds a reference into it, and what it held is not needed any more.
        unsafe { madvise(self.start.cast(), self.length.get(), advice) }
    }

    /// Gives all pages back; the page tables stay.
    pub(super) fn release(&mut self) -> io::Result<()> {
        self.touched = 0;
        Ok(self.advise(MmapAdvise::MADV_DONTNEED)?)
    }

    pub(super) fn holds(&self, bytes: u64) -> bool {
        self.length.get() as u64 >= bytes
    }

    /// Touches the next page for the first time.
    #[inline]
    pub(super) fn touch(&mut self) -> io::Result<()> {
        let offset = self.touched * PAGE_SIZE as usize;
        if offset >= self.length.get() {
            return Err(io::Error::other("the line was never crossed"));
        }
        // SAFETY: within the mapping, which is writable.
        unsafe { self.start.as_ptr().add(offset).write_volatile(1) };
        self.touched += 1;
        Ok(())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length; nobody holds a reference into it.
        if let Err(error) = unsafe { munmap(self.start.cast(), self.length.get()) } {
            tracing::warn!(%error, "memory cannot be unmapped");
        }
    }
}

/// Carries out a crossing; the time just before the page that did it (CLOCK_MONOTONIC, ns).
pub(super) fn cross(memory: &mut Memory, crossing: &Crossing) -> io::Result<i64> {
    let counter = Counter(File::open(&crossing.counter)?);
    let progress = crossing
        .progress
        .as_deref()
        .map(Progress::open)
        .transpose()?;
    let before = |bytes: u64| crossing.line.saturating_sub(bytes.max(NEAR));
    approach(memory, &counter, before(crossing.run_up), &mut Pace::new(0))?;
    let mut pace = Pace::new(crossing.rate);
    approach(memory, &counter, before(NEAR), &mut pace)?;
    let crossed = loop {
        let at = clock::now().as_nanos();
        memory.touch()?;
        if counter.read()? >= crossing.line {
            break at;
        }
        pace.keep();
    };
    let figures = progress.as_ref().map(Progress::figures);
    if let Some(figures) = figures {
        figures.crossed_ns.store(crossed, Ordering::Release);
    }
    for past in 1..=crossing.past_pages {
        if let Some(figures) = figures {
            figures
                .last_ns
                .store(clock::now().as_nanos(), Ordering::Relaxed);
            figures.past_pages.store(past, Ordering::Release);
        }
        pace.keep();
        memory.touch()?;
    }
    Ok(crossed)
}

/// Touches pages until the counter is at `target`, as near as it goes without reading it after each page.
fn approach(
    memory: &mut Memory,
    counter: &Counter,
    target: u64,
    pace: &mut Pace,
) -> io::Result<()> {
    loop {
        let room = target.saturating_sub(counter.read()?) / PAGE_SIZE;
        if room == 0 {
            return Ok(());
        }
        for _ in 0..room {
            memory.touch()?;
            pace.keep();
        }
    }
}

/// Takes so many bytes a second and gives them back, again and again.
pub(super) fn breathe(bytes_a_second: u64) -> io::Result<std::convert::Infallible> {
    let mut memory = Memory::map(BREATH)?;
    let mut pace = Pace::new(bytes_a_second);
    loop {
        for _ in 0..BREATH / PAGE_SIZE {
            memory.touch()?;
            pace.keep();
        }
        memory.release()?;
    }
}

/// A file with one number, read as fast as it goes.
struct Counter(File);

impl Counter {
    fn read(&self) -> io::Result<u64> {
        let mut text = [0; 32];
        let length = self.0.read_at(&mut text, 0)?;
        parse::single(&text[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Holds a rate: sleeps when more was done than is due.
struct Pace {
    /// Bytes a second; 0: no limit.
    rate: u64,
    since: Timestamp,
    pages: u64,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Self {
            rate,
            since: clock::now(),
            pages: 0,
        }
    }

    /// Books one page.
    fn keep(&mut self) {
        self.pages += 1;
        if self.rate == 0 || !self.pages.is_multiple_of(PAGES_BETWEEN_CLOCKS) {
            return;
        }
        let due = Duration::from_secs_f64((self.pages * PAGE_SIZE) as f64 / self.rate as f64);
        let ahead = due.saturating_sub(clock::elapsed_since(self.since));
        if ahead > SHORTEST_SLEEP {
            std::thread::sleep(ahead);
        }
    }
}
