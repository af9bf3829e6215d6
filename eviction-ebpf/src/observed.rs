//! What is told beside the events that say "look now". Nothing here ever leads to a kill by itself.

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    helpers::{
        bpf_get_current_pid_tgid, bpf_get_smp_processor_id, bpf_ktime_get_ns,
        generated::bpf_probe_read_kernel_str,
    },
    macros::map,
    maps::{LruHashMap, PerCpuArray, RingBuf},
};
use eviction_ebpf::abi::{
    CGROUP_RING_BYTES, CgroupEvent, Event, Kind, Loss, NAME_ROOM, Rung, STALL_ROOM, Stall,
    VICTIM_SLOT,
};

use crate::{
    globals::EVICTION_ABI_6,
    hierarchy::{self, NOT_READ},
    maps,
};

/// Apart from the others: a runtime that makes cgroups by the hundred delays no event.
#[map]
static CGROUP_EVENTS: RingBuf = RingBuf::with_byte_size(CGROUP_RING_BYTES, 0);
/// Task -> when it began to reclaim.
#[map]
static RECLAIMING: LruHashMap<u64, u64> = LruHashMap::with_max_entries(STALL_ROOM, 0);
/// Cgroup id in the memory hierarchy -> what its tasks waited for.
#[map]
static RECLAIM_STALLS: LruHashMap<u64, Stall> = LruHashMap::with_max_entries(STALL_ROOM, 0);
#[map]
static LOST: PerCpuArray<u64> = PerCpuArray::with_max_entries(Loss::KINDS, 0);

/// A process that the OOM killer has chosen, and its memory cgroup (0 if unknown).
pub(crate) fn oom_victim(pid: u32, cgroup_id: u64) {
    // A full ring is counted; the kernel's own counters show the kill all the same.
    let _ = maps::send(Event {
        // SAFETY: helpers without preconditions.
        time_ns: unsafe { bpf_ktime_get_ns() },
        cgroup_id,
        amount: 0,
        limit_word: 0,
        usage: NOT_READ,
        slot: VICTIM_SLOT,
        device: 0,
        pid,
        tgid: pid,
        // SAFETY: as above.
        cpu: unsafe { bpf_get_smp_processor_id() },
        kind: Kind::OomKill as u8,
        rung: Rung::TraceOom as u8,
        abi: EVICTION_ABI_6.load() as u16,
    });
}

pub(crate) fn reclaim_begins() {
    // SAFETY: a helper without preconditions.
    let now = unsafe { bpf_ktime_get_ns() };
    // What finds no room is counted when its end finds no beginning.
    let _ = RECLAIMING.insert(bpf_get_current_pid_tgid(), now, BPF_ANY.into());
}

pub(crate) fn reclaim_ends() {
    let task = bpf_get_current_pid_tgid();
    let Some(began) = RECLAIMING.get_ptr(task) else {
        lose(Loss::Stalls);
        return;
    };
    // SAFETY: a pointer to a value of the map that only this task writes; a helper without preconditions.
    let spent = unsafe { bpf_ktime_get_ns().wrapping_sub(began.read()) };
    let _ = RECLAIMING.remove(task);
    let cgroup = hierarchy::id_of_current();
    let first = Stall {
        total_ns: spent,
        times: 1,
    };
    if RECLAIM_STALLS.get_ptr(cgroup).is_none()
        && RECLAIM_STALLS
            .insert(cgroup, first, BPF_NOEXIST.into())
            .is_ok()
    {
        return;
    }
    if let Some(stall) = RECLAIM_STALLS.get_ptr_mut(cgroup) {
        // SAFETY: a pointer to a value of the map; its aligned words are only ever added to.
        unsafe {
            maps::add(&raw mut (*stall).total_ns, spent);
            maps::add(&raw mut (*stall).times, 1);
        }
    }
}

/// `node` is the cgroup's `kernfs_node`.
pub(crate) fn cgroup_changed(node: hierarchy::KernfsNode, made: bool) {
    let Some(mut entry) = CGROUP_EVENTS.reserve::<CgroupEvent>(0) else {
        lose(Loss::Cgroups);
        return;
    };
    let event = entry.write(CgroupEvent {
        id: node.id(),
        parent: node.parent().id(),
        made: made.into(),
        length: 0,
        name: [0; NAME_ROOM],
    });
    // SAFETY: the helper writes at most the buffer that it is given, and checks the address that it reads from.
    let length = unsafe {
        bpf_probe_read_kernel_str(
            event.name.as_mut_ptr().cast(),
            NAME_ROOM as u32,
            node.name() as *const core::ffi::c_void,
        )
    };
    event.length = length as i32;
    entry.submit(BPF_ANY.into());
}

/// Counts one.
pub(crate) fn lose(what: Loss) {
    if let Some(count) = LOST.get_ptr_mut(what as u32) {
        // SAFETY: this CPU's own aligned `u64`.
        unsafe { maps::add(count, 1) };
    }
}
