//! Who has used up how much, for the ranking: a counter for each cgroup, device and kind.

use core::ptr::null_mut;

use aya_ebpf::{
    bindings::{BPF_ANY, BPF_NOEXIST},
    helpers::{bpf_get_current_pid_tgid, bpf_ktime_get_ns},
    macros::map,
    maps::{LruHashMap, PerCpuArray},
};
use eviction_ebpf::abi::{GROWTHS, Growth, GrowthKey, Kind, Loss, PENDINGS, Pending, Run, UNKNOWN};

use crate::{
    maps::{self, EEXIST},
    observed, turns,
};

#[map]
static GROWTH: LruHashMap<GrowthKey, Growth> = LruHashMap::with_max_entries(GROWTHS, 0);
#[map]
static GROWTH_RUNS: PerCpuArray<Run> = PerCpuArray::with_max_entries(Run::KINDS, 0);

/// Task -> what it is giving back.
#[map]
static PENDING: LruHashMap<u64, Pending> = LruHashMap::with_max_entries(PENDINGS, 0);

/// This CPU's run, for one turn until [`close_run`]; null while another one goes on.
#[inline(always)]
pub(crate) fn open_run(kind: Kind) -> *mut Run {
    let Some(run) = GROWTH_RUNS.get_ptr_mut(Run::index(kind)) else {
        return null_mut();
    };
    // SAFETY: this CPU's own.
    if unsafe { turns::begin(&raw mut (*run).opened, &raw const (*run).closed) } {
        run
    } else {
        null_mut()
    }
}

/// # Safety
/// `run` must be what [`open_run`] has returned, and not null.
#[inline(always)]
pub(crate) unsafe fn close_run(run: *mut Run) {
    // SAFETY: by the caller's promise.
    unsafe { turns::end(&raw const (*run).opened, &raw mut (*run).closed) }
}

/// Books what is used up (or, negative in two's complement, given back).
pub(crate) fn grow(cgroup_id: u64, device: u32, kind: Kind, units: u64) {
    let key = GrowthKey {
        cgroup_id,
        device,
        kind: kind as u32,
    };
    let run = open_run(kind);
    if run.is_null() {
        return book(key, units);
    }
    // SAFETY: opened just now.
    unsafe {
        let before = (&raw const (*run).key).read_volatile();
        let net = (&raw const (*run).net).read_volatile();
        if before == key {
            let net = net.wrapping_add(units);
            let goes_on = Run::goes_on(kind, net);
            (&raw mut (*run).net).write_volatile(if goes_on { net } else { 0 });
            close_run(run);
            if !goes_on {
                book(key, net);
            }
            return;
        }
        (&raw mut (*run).key).write_volatile(key);
        (&raw mut (*run).net).write_volatile(0);
        close_run(run);
        // Nothing more is counted on a device that is watched no longer.
        if net != 0 && maps::slot_of_device(before.device, kind) != UNKNOWN {
            book(before, net);
        }
    }
    // At once, so that the counter is there, with the moment when it began.
    book(key, units);
}

fn book(key: GrowthKey, units: u64) {
    if let Some(growth) = GROWTH.get_ptr_mut(key) {
        // SAFETY: the map's values are 8-byte aligned; their sums are only ever added to.
        unsafe { maps::add(&raw mut (*growth).net, units) };
        return;
    }
    let first = Growth {
        net: units,
        // SAFETY: a helper without preconditions.
        since_ns: unsafe { bpf_ktime_get_ns() },
    };
    let begun = GROWTH.insert(key, first, BPF_NOEXIST.into());
    if begun.is_ok() {
        observed::lose(Loss::GrowthBegun);
    } else if begun == Err(-EEXIST)
        && let Some(growth) = GROWTH.get_ptr_mut(key)
    {
        // SAFETY: as above; another CPU inserted it in between.
        unsafe { maps::add(&raw mut (*growth).net, units) };
    }
}

/// Keeps what the current task is about to give back.
pub(crate) fn promise(device: u32, kind: Kind, units: u64) {
    let pending = Pending {
        units,
        device,
        kind: kind as u32,
    };
    // Not kept: the growth stays too high until the next base scan.
    let _ = PENDING.insert(bpf_get_current_pid_tgid(), pending, BPF_ANY.into());
}

/// Books what the current task has given back.
pub(crate) fn keep_promise(cgroup_id: u64, kind: Kind) {
    let task = bpf_get_current_pid_tgid();
    if let Some(pending) = PENDING.get_ptr_mut(task) {
        // SAFETY: only this task writes its entry.
        let (units, device, kept) =
            unsafe { ((*pending).units, (*pending).device, (*pending).kind) };
        if kept == kind as u32 {
            grow(cgroup_id, device, kind, units.wrapping_neg());
        }
        let _ = PENDING.remove(task);
    }
}
