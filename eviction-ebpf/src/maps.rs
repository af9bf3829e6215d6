//! The maps that decide when to look, and the only writers of the two rings.

use aya_ebpf::{
    EbpfContext,
    bindings::{BPF_ANY, BPF_F_MMAPABLE, BPF_NOEXIST},
    helpers::{bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::map,
    maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf},
};
use eviction_ebpf::abi::{
    CLAIMS as CLAIM_ROOM, ClaimKey, DEVICE_SLOTS, Event, Kind, RING_BYTES, Rung,
    SLOTS as SLOT_ROOM, SUPERS as SUPER_ROOM, Slot, UNKNOWN,
};

use crate::{globals::EVICTION_ABI_6, turns};

pub(crate) const EEXIST: i32 = 17;

#[map]
pub(crate) static SLOTS: Array<Slot> = Array::with_max_entries(SLOT_ROOM, BPF_F_MMAPABLE);
/// Which armings have been reported. Pre-allocated: perf programs may use no other kind.
#[map]
static CLAIMS: HashMap<ClaimKey, u32> = HashMap::with_max_entries(CLAIM_ROOM, 0);
/// How many page faults one sample stands for; user space keeps it no smaller than the period in force.
#[map]
static FAULT_BATCH: Array<u64> = Array::with_max_entries(1, 0);
#[map]
static CACHE_PAGES: PerCpuArray<CachePages> = PerCpuArray::with_max_entries(1, 0);
/// Memory has a ring of its own, so that a storm of inodes or forks cannot delay its events.
#[map]
static MEMORY_EVENTS: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);
#[map]
static FS_EVENTS: RingBuf = RingBuf::with_byte_size(RING_BYTES, 0);
#[map]
static MEMORY_DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);
#[map]
static FS_DROPS: PerCpuArray<u64> = PerCpuArray::with_max_entries(1, 0);
/// A file system's private structure -> its super block, learned where the private structure's layout is unknown.
#[map]
static SUPERS: LruHashMap<u64, u64> = LruHashMap::with_max_entries(SUPER_ROOM, 0);

/// Pages that entered the page cache on a CPU without being booked yet, and whose turn it is to change them.
#[repr(C)]
struct CachePages {
    pages: u64,
    opened: u64,
    closed: u64,
}

/// What the writer of an event knows beyond the slot and the moment.
pub(crate) struct Crossing {
    pub(crate) cgroup_id: u64,
    pub(crate) amount: u64,
    pub(crate) usage: u64,
    pub(crate) device: u32,
    pub(crate) kind: Kind,
    pub(crate) rung: Rung,
}

pub(crate) fn fault_batch() -> u64 {
    FAULT_BATCH
        .get(0)
        .map_or(1, |batch| if *batch == 0 { 1 } else { *batch })
}

/// Collects pages that entered the page cache on this CPU. How many are to be booked now: none, until they are as many as
/// one sample of page faults stands for.
pub(crate) fn collect(pages: u64) -> u64 {
    let Some(own) = CACHE_PAGES.get_ptr_mut(0) else {
        return pages;
    };
    // SAFETY: this CPU's own words, changed in turns.
    unsafe {
        let (opened, closed) = (&raw mut (*own).opened, &raw mut (*own).closed);
        if !turns::begin(opened, closed) {
            return pages;
        }
        let collected = (&raw const (*own).pages).read_volatile() + pages;
        let due = collected >= fault_batch();
        (&raw mut (*own).pages).write_volatile(if due { 0 } else { collected });
        turns::end(opened, closed);
        if due { collected } else { 0 }
    }
}

/// The slot for a kind of use of a device, or `UNKNOWN`. Few devices are watched: going through them takes a fraction of the
/// time that a hash map does, and every block that anybody takes pays for it.
pub(crate) fn slot_of_device(device: u32, kind: Kind) -> u32 {
    // SAFETY: pointers into the map, here and below; the words are read whole.
    let end = SLOTS.get_ptr(0).map_or(0, |first| unsafe {
        (&raw const (*first).end).read_volatile()
    });
    for index in DEVICE_SLOTS {
        if index >= end {
            break;
        }
        if let Some(slot) = SLOTS.get_ptr(index) {
            // SAFETY: see above.
            let (its_kind, its_device) = unsafe {
                (
                    (&raw const (*slot).kind).read_volatile(),
                    (&raw const (*slot).device).read_volatile(),
                )
            };
            if its_device == device && its_kind == kind as u32 {
                return index;
            }
        }
    }
    UNKNOWN
}

pub(crate) fn learn_super(private: u64, super_block: u64) {
    // A table that is full of others' super blocks leaves this one unknown: the heartbeat has to see it.
    let _ = SUPERS.insert(private, super_block, BPF_ANY.into());
}

/// The super block with this private structure, 0 if it was not learned.
pub(crate) fn learned_super(private: u64) -> u64 {
    // SAFETY: a `u64` is read whole; a stale address is compared with devices before it is used.
    unsafe { SUPERS.get(private) }.map_or(0, |super_block| *super_block)
}

/// Adds without reading back: with the result, it would be an instruction that 5.10 does not have.
///
/// # Safety
/// `target` must be an aligned `u64` in a map value.
pub(crate) unsafe fn add(target: *mut u64, units: u64) {
    // The target has no compare-and-swap, so Rust offers no `fetch_add` for it; this is BPF_XADD, known since 3.18.
    // SAFETY: by the caller's promise.
    unsafe {
        core::arch::asm!("lock *(u64 *)({target} + 0) += {units}", target = in(reg) target, units = in(reg) units);
    }
}

/// Hands an event over; false, and counted, if its ring is full.
#[inline(always)]
pub(crate) fn send(event: Event) -> bool {
    // An OOM kill is news about memory, and as rare as a ring of its own would be idle.
    let about_memory = event.kind == Kind::Memory as u8 || event.kind == Kind::OomKill as u8;
    let (ring, drops) = if about_memory {
        (&MEMORY_EVENTS, &MEMORY_DROPS)
    } else {
        (&FS_EVENTS, &FS_DROPS)
    };
    let Some(mut entry) = ring.reserve::<Event>(0) else {
        if let Some(count) = drops.get_ptr_mut(0) {
            // SAFETY: this CPU's own aligned `u64`.
            unsafe { add(count, 1) };
        }
        return false;
    };
    entry.write(event);
    entry.submit(BPF_ANY.into());
    true
}

/// Sends one event for an arming, unless it has been sent. A full ring takes the claim back: the next unit that is spent
/// tries again.
pub(crate) fn report<C: EbpfContext>(ctx: &C, slot: u32, limit_word: u64, crossing: &Crossing) {
    let claim = ClaimKey {
        slot: slot.into(),
        limit_word,
    };
    // Any other failure than "it is there" (table full, bucket lock held below us) must not silence the event.
    if CLAIMS.insert(claim, 0u32, BPF_NOEXIST.into()) == Err(-EEXIST) {
        return;
    }
    let sent = send(Event {
        // SAFETY: helpers without preconditions.
        time_ns: unsafe { bpf_ktime_get_ns() },
        cgroup_id: crossing.cgroup_id,
        amount: crossing.amount,
        limit_word,
        usage: crossing.usage,
        slot,
        device: crossing.device,
        pid: ctx.pid(),
        tgid: ctx.tgid(),
        // SAFETY: as above.
        cpu: unsafe { bpf_get_smp_processor_id() },
        kind: crossing.kind as u8,
        rung: crossing.rung as u8,
        abi: EVICTION_ABI_6.load() as u16,
    });
    if !sent {
        let _ = CLAIMS.remove(claim);
        return;
    }
    aya_log_ebpf::info!(
        ctx,
        "slot {} crossed: limit {:x}, {} units since the mark, usage {}, cgroup {}",
        slot,
        limit_word,
        crossing.amount,
        crossing.usage,
        crossing.cgroup_id
    );
}
