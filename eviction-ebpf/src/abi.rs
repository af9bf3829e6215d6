//! The wire format between the programs and user space: map layouts, events, names of programs and globals.

#[cfg(not(target_arch = "bpf"))]
mod decode;
mod observed;
#[cfg(not(target_arch = "bpf"))]
pub use decode::{DecodeError, UnknownRung};
pub use observed::{
    CGROUP_RING_BYTES, CgroupEvent, Loss, NAME_ROOM, STALL_ROOM, Stall, VICTIM_SLOT,
};
pub mod names;

/// Grows with every change of a layout or a meaning in this module. The object carries it in the *name* of a global
/// ([`names::ABI`]), so an object of another ABI cannot be loaded, and in every event.
pub const ABI: u16 = 6;

/// Slots for memory: 0 is the node's, the others are for cgroups.
pub const MEMORY_SLOTS: u32 = 4;
/// The slot for tasks of the whole node.
pub const FORKS_SLOT: u32 = MEMORY_SLOTS;
/// Slots for devices follow, one per device and kind.
pub const DEVICE_SLOTS: core::ops::Range<u32> = FORKS_SLOT + 1..SLOTS;
pub const SLOTS: u32 = 32;
/// Claims stay behind for a while ([`CLAIM_LAG`] armings per slot); twice the room, so it is never tight.
pub const CLAIMS: u32 = 2048;
/// After how many further armings of a slot a claim is deleted. A program that read the limit before must not be able to
/// claim it a second time, and no program sleeps through this many looks.
pub const CLAIM_LAG: usize = 32;
/// Counters of (cgroup, device, kind) for ranking; the least recently used goes when they do not suffice.
pub const GROWTHS: u32 = 16_384;
/// Super blocks that were learned from `statfs`, and give-backs under way.
pub const SUPERS: u32 = 256;
pub const PENDINGS: u32 = 4096;
/// Each ring holds 900 events; one arming sends one event.
pub const RING_BYTES: u32 = 64 * 1024;

/// An offset or argument index that BTF could not tell.
pub const UNKNOWN: u32 = u32::MAX;

/// One thing to watch. Lives in an array that user space has mapped: arming is a store, not a system call.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub struct Slot {
    /// Kernel adds; never reset.
    pub spent: u64,
    /// User stores: [`crate::credit::Limit`].
    pub limit: u64,
    /// User stores, before the limit: pages of the scope's counter (the node: anon + file - inactive file) that count as
    /// crossed, or `LEVEL_UNKNOWN`.
    pub level: u64,
    /// Cgroup id in the memory hierarchy, 0 for everything.
    pub scope: u64,
    /// User stores: `spent` when the look began; events report what was spent since.
    pub mark: u64,
    /// Kernel's own: where the scope's css was last seen. Never trusted without comparing the id there.
    pub css_hint: u64,
    /// User stores, before the limit. Memory: what other CPUs may be adding, see `credit::level_reached`. Bytes: how many a
    /// CPU may collect before it spends them, see `credit::bytes_batch`.
    pub margin: u32,
    /// The kernel's `dev_t` (12 bits major, 20 bits minor) for inodes and bytes.
    pub device: u32,
    /// [`Kind`], 0 while the slot is free.
    pub kind: u32,
    /// In slot 0 only, user stores: one past the last slot that was ever taken.
    pub end: u32,
}

impl Slot {
    pub const FREE: Self = Self {
        spent: 0,
        limit: u64::MAX,
        level: u64::MAX,
        scope: 0,
        mark: 0,
        css_hint: 0,
        margin: 0,
        device: 0,
        kind: 0,
        end: 0,
    };
}

/// "Look now." Fixed size, no padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(8))]
pub struct Event {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Of the charged cgroup or the current task, in the memory hierarchy; 0 if unknown.
    pub cgroup_id: u64,
    /// Units spent since the mark of the arming: pages, inodes, bytes or tasks.
    pub amount: u64,
    /// Which arming was crossed.
    pub limit_word: u64,
    /// Real usage of the scope in pages, `u64::MAX` if it was not read.
    pub usage: u64,
    pub slot: u32,
    pub device: u32,
    pub pid: u32,
    pub tgid: u32,
    pub cpu: u32,
    /// [`Kind`]
    pub kind: u8,
    /// [`Rung`]
    pub rung: u8,
    pub abi: u16,
}

/// Exactly one arming of one slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct ClaimKey {
    pub slot: u64,
    pub limit_word: u64,
}

/// Who used up what where.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C, align(8))]
pub struct GrowthKey {
    pub cgroup_id: u64,
    pub device: u32,
    /// [`Kind`]
    pub kind: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct Growth {
    /// Used up minus given back, as an `i64`.
    pub net: u64,
    /// `CLOCK_MONOTONIC` when this entry was made: all before is not in it.
    pub since_ns: u64,
}

/// What a CPU has counted for one key and not yet added to its [`Growth`]: nearly all blocks are taken by whoever took the
/// last one there, and finding the counter costs more than all the rest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct Run {
    /// Written last, and read first: while it differs from `opened`, a program is changing the rest.
    pub closed: u64,
    pub key: GrowthKey,
    /// As [`Growth::net`].
    pub net: u64,
    pub opened: u64,
}

impl Run {
    /// A run is added to its counter when it has come to this, up or down: so much may be missing from a counter for each
    /// CPU, or be told twice, while it is read.
    pub const fn most(kind: Kind) -> u64 {
        match kind {
            Kind::Bytes => 1 << 20,
            _ => 64,
        }
    }

    /// Whether the run can stay as it is with this net growth.
    #[inline(always)]
    pub const fn goes_on(kind: Kind, net: u64) -> bool {
        let most = Self::most(kind);
        net.wrapping_add(most) < 2 * most
    }

    /// Whose run it is among a CPU's runs.
    pub const fn index(kind: Kind) -> u32 {
        match kind {
            Kind::Bytes => 1,
            _ => 0,
        }
    }

    pub const KINDS: u32 = 2;
}

/// What a task is about to give back: booked when the function that does it returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(8))]
pub struct Pending {
    pub units: u64,
    pub device: u32,
    /// [`Kind`]
    pub kind: u32,
}

/// What a slot counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Pages.
    Memory = 1,
    Inodes = 2,
    /// Bytes of disk space, as the file system itself takes them.
    Bytes = 3,
    /// Tasks: processes and threads.
    Forks = 4,
    /// A victim of the OOM killer; no slot counts these, each is an event of its own.
    OomKill = 5,
    /// Bytes written, on file systems that are not seen taking space: a bound, and nobody's growth.
    Written = 6,
}

/// The hook that an event came from. The numbers are part of the ABI.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Rung {
    FentryCharge = 1,
    KprobeCharge = 2,
    PerfFaults = 3,
    TraceFilemap = 4,
    TracePageAlloc = 5,
    FentryInode = 16,
    KprobeInode = 17,
    TraceExt4 = 18,
    TraceXfs = 19,
    TraceBtrfs = 20,
    FentryFreed = 24,
    KprobeFreed = 25,
    TraceFreedExt4 = 26,
    TraceFreedBtrfs = 27,
    FentryExt4Bytes = 32,
    KprobeExt4Bytes = 33,
    TraceExt4Bytes = 34,
    KprobeXfsBytes = 36,
    TraceXfsBytes = 37,
    KprobeBtrfsBytes = 40,
    TraceBtrfsBytes = 41,
    FentryTmpfsBytes = 44,
    KprobeTmpfsBytes = 45,
    FentryWritten = 52,
    KprobeWritten = 53,
    TraceWritten = 54,
    TraceNewTask = 48,
    TraceOom = 64,
    TraceReclaim = 65,
    TraceCgroups = 66,
}

/// How the number of pages of a folio can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum FolioSize {
    /// Not at all: a large folio counts as [`WORST_FOLIO_PAGES`].
    Unknown = 0,
    /// A `u32` with the number of pages (`_nr_pages`).
    Pages = 1,
    /// The order in the low byte of a word (`_flags_1`).
    OrderInFlags = 2,
    /// The order in a byte of its own (`_folio_order`).
    Order = 3,
}

/// Bytes in a page.
pub const PAGE_BYTES: u64 = 4096;
/// The largest folio that a page fault or the page cache brings in on 4 KiB pages: one huge page.
pub const WORST_FOLIO_PAGES: u32 = 512;

const _: () = {
    assert!(size_of::<Slot>() == 64);
    assert!(size_of::<Event>() == 64);
    assert!(size_of::<ClaimKey>() == 16);
    assert!(size_of::<GrowthKey>() == 16);
    assert!(size_of::<Growth>() == 16);
    assert!(size_of::<Run>() == 40);
    assert!(size_of::<Pending>() == 16);
    assert!(core::mem::offset_of!(Slot, spent) == 0);
    assert!(core::mem::offset_of!(Slot, limit) == 8);
    assert!(core::mem::offset_of!(Event, abi) == 62);
    assert!(RING_BYTES.is_power_of_two());
    assert!(SLOTS as usize * CLAIM_LAG * 2 <= CLAIMS as usize);
};

#[cfg(not(target_arch = "bpf"))]
mod pod {
    use super::{ClaimKey, Growth, GrowthKey, Run, Slot};

    // SAFETY: `repr(C)` integers without padding (asserted above); every bit pattern is valid.
    unsafe impl aya::Pod for Slot {}
    // SAFETY: as above.
    unsafe impl aya::Pod for ClaimKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for GrowthKey {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Growth {}
    // SAFETY: as above.
    unsafe impl aya::Pod for Run {}
}
