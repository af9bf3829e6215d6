//! Anonymous mappings that are kept until they are given back.

use nix::sys::mman::{MRemapFlags, MapFlags, MmapAdvise, ProtFlags};
use nix::sys::mman::{madvise, mmap_anonymous, mremap, munmap};
use std::ffi::c_void;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;
const PART: usize = 256 << 10;
/// By how much a mapping grows when it is moved.
const GROWTH: usize = 1 << 20;

#[derive(Default)]
pub(super) struct Regions(Vec<Region>);

#[derive(Clone, Copy)]
struct Region {
    start: NonNull<c_void>,
    length: usize,
}

impl Region {
    fn map(length: usize) -> io::Result<Self> {
        let size = NonZeroUsize::new(length).ok_or(io::ErrorKind::InvalidInput)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh private mapping that nothing else refers to.
        let start = unsafe { mmap_anonymous(None, size, protection, MapFlags::MAP_PRIVATE) }?;
        Ok(Self { start, length })
    }

    /// Writes to every page from `offset` on, for `bytes`.
    fn write(&self, offset: usize, bytes: usize) {
        for at in (offset..(offset + bytes).min(self.length)).step_by(PAGE) {
            // SAFETY: `at` lies within the mapping, which is writable and referred to by nobody else.
            unsafe { self.start.cast::<u8>().as_ptr().add(at).write_volatile(1) };
        }
    }
}

impl Regions {
    /// In parts that can be given back one by one.
    pub(super) fn touch(&mut self, bytes: usize) -> io::Result<()> {
        for offset in (0..bytes).step_by(PART) {
            let length = PART.min(bytes - offset);
            let region = Region::map(length)?;
            // Without this the kernel may give 2 MiB where a page was asked for.
            // SAFETY: advice on a mapping of ours; its content does not change.
            let _ = unsafe { madvise(region.start, length, MmapAdvise::MADV_NOHUGEPAGE) };
            region.write(0, length);
            self.0.push(region);
        }
        Ok(())
    }

    pub(super) fn touch_huge(&mut self, bytes: usize) -> io::Result<()> {
        let region = Region::map(bytes + HUGE_PAGE)?;
        // A kernel without huge pages says EINVAL, and gives small ones.
        // SAFETY: as above.
        let _ = unsafe { madvise(region.start, region.length, MmapAdvise::MADV_HUGEPAGE) };
        let aligned = region.start.as_ptr().align_offset(HUGE_PAGE);
        region.write(aligned, bytes);
        self.0.push(region);
        Ok(())
    }

    pub(super) fn remap(&mut self) -> io::Result<()> {
        let Some(region) = self.0.last_mut() else {
            return Ok(());
        };
        let length = region.length + GROWTH;
        // SAFETY: the mapping is ours, and its old address is not used again.
        let start = unsafe {
            mremap(
                region.start,
                region.length,
                length,
                MRemapFlags::MREMAP_MAYMOVE,
                None,
            )
        }?;
        let grown_at = region.length;
        *region = Region { start, length };
        region.write(grown_at, GROWTH);
        Ok(())
    }

    pub(super) fn release(&mut self, bytes: usize) -> io::Result<()> {
        let mut released = 0;
        while released < bytes
            && let Some(region) = self.0.pop()
        {
            // SAFETY: the mapping is ours, and nothing refers to it any more.
            unsafe { munmap(region.start, region.length) }?;
            released += region.length;
        }
        Ok(())
    }
}
