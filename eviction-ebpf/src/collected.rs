//! Bytes that a CPU has seen taken and keeps for itself for a while. A write takes one block after the other, for the same
//! cgroup on the same device; while the line is far, none of them needs more than two additions to this CPU's own words.
//! How many may be kept is user space's choice (`Slot::margin`), and part of what it reckons to be in flight.

use aya_ebpf::{macros::map, maps::PerCpuArray};
use eviction_ebpf::abi::{GrowthKey, Kind, Run, SLOTS as SLOT_ROOM};

use crate::{growth, maps::SLOTS};

/// Of each slot. Changed only while the CPU's run of bytes is open.
#[map]
static COLLECTED: PerCpuArray<u64> = PerCpuArray::with_max_entries(SLOT_ROOM, 0);

/// Adds `bytes` to what this CPU keeps and to its run, if both may go on; else nothing has been done.
#[inline(always)]
pub(crate) fn keep(index: u32, cgroup_id: u64, device: u32, bytes: u64) -> bool {
    let key = GrowthKey {
        cgroup_id,
        device,
        kind: Kind::Bytes as u32,
    };
    let (Some(slot), Some(kept)) = (SLOTS.get_ptr(index), COLLECTED.get_ptr_mut(index)) else {
        return false;
    };
    let run = growth::open_run(Kind::Bytes);
    if run.is_null() {
        return false;
    }
    // SAFETY: the run was opened just now, which makes the other word this program's alone; `margin` is read whole.
    unsafe {
        let net = (&raw const (*run).net).read_volatile().wrapping_add(bytes);
        let together = kept.read_volatile() + bytes;
        let may = (&raw const (*slot).margin).read_volatile();
        let goes_on = (&raw const (*run).key).read_volatile() == key
            && Run::goes_on(Kind::Bytes, net)
            && together < may.into();
        if goes_on {
            (&raw mut (*run).net).write_volatile(net);
            kept.write_volatile(together);
        }
        growth::close_run(run);
        goes_on
    }
}

/// What this CPU has kept, which the caller has to spend.
#[inline(always)]
pub(crate) fn take(index: u32) -> u64 {
    let Some(kept) = COLLECTED.get_ptr_mut(index) else {
        return 0;
    };
    // SAFETY: this CPU's own word, read whole.
    if unsafe { kept.read_volatile() } == 0 {
        return 0;
    }
    let run = growth::open_run(Kind::Bytes);
    if run.is_null() {
        // Whoever has it open, or comes next, takes it.
        return 0;
    }
    // SAFETY: as in `keep`.
    unsafe {
        let all = kept.read_volatile();
        kept.write_volatile(0);
        growth::close_run(run);
        all
    }
}
