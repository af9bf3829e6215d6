//! Spending: add, compare, and report once. The order (add, then read the limit) is half of the argument that no crossing
//! is lost; user space's half (store the limit, then read what is spent) is in `slots.rs`. `tests/interleavings.rs` of
//! this package explores both. On x86 the add is a full barrier; where it is not, the heartbeat bounds the delay.

use aya_ebpf::EbpfContext;
use eviction_ebpf::{
    abi::{DEVICE_SLOTS, FORKS_SLOT, Kind, MEMORY_SLOTS, Rung, Slot, UNKNOWN},
    credit::{LEVEL_UNKNOWN, Limit, level_reached},
};

use crate::{
    collected, growth,
    hierarchy::{self, Css, NOT_READ, Owner},
    maps::{self, Crossing, SLOTS},
    node,
};

/// Pages that somebody is getting.
pub(crate) struct Charge {
    pub(crate) owner: Owner,
    /// What to book, the worst case where the hook cannot tell.
    pub(crate) units: u64,
    /// What is certainly coming and not yet in the counter.
    pub(crate) charging: u64,
    /// A sample of many faults by anybody: counts for every scope.
    pub(crate) everywhere: bool,
    pub(crate) rung: Rung,
}

pub(crate) fn memory<C: EbpfContext>(ctx: &C, charge: &Charge) {
    if !charge.owner.memory {
        return;
    }
    let css = charge.owner.css;
    for index in 0..MEMORY_SLOTS {
        if let Some(slot) = SLOTS.get_ptr_mut(index) {
            // SAFETY: a pointer into the map, valid for the program's life; the words are read and written whole.
            unsafe { charge_slot(ctx, index, slot, css, charge) };
        }
    }
}

/// # Safety
/// `slot` must point to a value of `SLOTS`.
#[inline(always)]
unsafe fn charge_slot<C: EbpfContext>(
    ctx: &C,
    index: u32,
    slot: *mut Slot,
    css: Css,
    charge: &Charge,
) {
    // SAFETY: by the caller's promise, here and below.
    let (kind, scope) = unsafe {
        (
            (&raw const (*slot).kind).read_volatile(),
            (&raw const (*slot).scope).read_volatile(),
        )
    };
    if kind != Kind::Memory as u32 {
        return;
    }
    let mut scope_css = 0;
    if scope != 0 && css != 0 {
        let place = hierarchy::place(css, scope);
        scope_css = place.scope;
        if place.outside {
            if !charge.everywhere {
                return;
            }
            // SAFETY: see above.
            scope_css = unsafe { remembered(slot, scope) };
        } else if scope_css != 0 {
            // SAFETY: see above. Only written when it changes, to leave the cache line alone.
            unsafe {
                let hint = &raw mut (*slot).css_hint;
                if hint.read_volatile() != scope_css {
                    hint.write_volatile(scope_css);
                }
            }
        }
    }
    // SAFETY: see above.
    let limit = unsafe { spend(slot, charge.units) };
    if !limit.is_armed() {
        return;
    }
    // Read after the limit: user space stores them the other way round.
    // SAFETY: see above.
    let (level, margin) = unsafe {
        (
            (&raw const (*slot).level).read_volatile(),
            (&raw const (*slot).margin).read_volatile(),
        )
    };
    let mut usage = NOT_READ;
    if level != LEVEL_UNKNOWN {
        usage = if scope == 0 {
            node::working_set(css)
        } else {
            hierarchy::usage(scope_css)
        };
        if usage != NOT_READ && !level_reached(usage, charge.charging, margin.into(), level) {
            return;
        }
    }
    let cgroup_id = if css == 0 {
        hierarchy::id_of_current()
    } else {
        hierarchy::id(css)
    };
    // SAFETY: see above.
    let amount = unsafe { since_mark(slot) };
    let crossing = Crossing {
        cgroup_id,
        amount,
        usage,
        device: 0,
        kind: Kind::Memory,
        rung: charge.rung,
    };
    maps::report(ctx, index, limit.word(), &crossing);
}

/// The scope's css as last seen, if that address still holds a css with the scope's id.
///
/// # Safety
/// `slot` must point to a value of `SLOTS`.
#[inline(always)]
unsafe fn remembered(slot: *mut Slot, scope: u64) -> Css {
    // SAFETY: by the caller's promise.
    let hint = unsafe { (&raw const (*slot).css_hint).read_volatile() };
    if hierarchy::id(hint) == scope {
        hint
    } else {
        0
    }
}

/// What is being used up, and which hook saw it.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    pub(crate) kind: Kind,
    pub(crate) units: u64,
    /// Whose growth it is; false for what was booked as such before, by another hook.
    pub(crate) grows: bool,
    /// An event even if credit is left.
    pub(crate) always: bool,
    pub(crate) rung: Rung,
}

impl Use {
    pub(crate) const fn of(kind: Kind, units: u64, rung: Rung) -> Self {
        Self {
            kind,
            units,
            grows: true,
            always: false,
            rung,
        }
    }
}

/// Books bytes that somebody takes on `device`, as [`device`] does: by this CPU for itself as long as that will do.
#[inline(always)]
pub(crate) fn bytes<C: EbpfContext>(ctx: &C, device: u32, bytes: u64, rung: Rung) {
    let what = Use::of(Kind::Bytes, bytes, rung);
    if device == UNKNOWN {
        return everywhere(ctx, what);
    }
    let index = maps::slot_of_device(device, Kind::Bytes);
    if index == UNKNOWN {
        return;
    }
    let cgroup_id = hierarchy::id_of_current();
    if !collected::keep(index, cgroup_id, device, bytes) {
        growth::grow(cgroup_id, device, Kind::Bytes, bytes);
        let units = bytes + collected::take(index);
        spend_in(ctx, index, cgroup_id, Use { units, ..what });
    }
}

/// Books a use of `device`, which is `UNKNOWN` where offsets are missing.
pub(crate) fn device<C: EbpfContext>(ctx: &C, device: u32, what: Use) {
    if device == UNKNOWN {
        return everywhere(ctx, what);
    }
    let index = maps::slot_of_device(device, what.kind);
    if index != UNKNOWN {
        watched(ctx, index, device, what);
    }
}

/// Nobody knows which file system it is: it counts for all of them.
fn everywhere<C: EbpfContext>(ctx: &C, what: Use) {
    for index in DEVICE_SLOTS {
        spend_in(ctx, index, hierarchy::id_of_current(), what);
    }
}

/// The same as [`device`] where the device's slot has been found.
#[inline(always)]
pub(crate) fn watched<C: EbpfContext>(ctx: &C, index: u32, device: u32, what: Use) {
    let cgroup_id = hierarchy::id_of_current();
    if what.grows {
        growth::grow(cgroup_id, device, what.kind, what.units);
    }
    spend_in(ctx, index, cgroup_id, what);
}

/// Books a task, which counts for the whole node.
pub(crate) fn task<C: EbpfContext>(ctx: &C, rung: Rung) {
    let what = Use::of(Kind::Forks, 1, rung);
    spend_in(ctx, FORKS_SLOT, hierarchy::id_of_current(), what);
}

/// What was used up on `device` is free again. Only the growth shrinks: no credit is given back, see `credit.rs`.
pub(crate) fn give_back(device: u32, kind: Kind, units: u64) {
    if maps::slot_of_device(device, kind) != UNKNOWN {
        let cgroup_id = hierarchy::id_of_current();
        growth::grow(cgroup_id, device, kind, units.wrapping_neg());
    }
}

/// The same where it is only about to happen: [`given_back`] books it.
pub(crate) fn giving_back(device: u32, kind: Kind, units: u64) {
    if maps::slot_of_device(device, kind) != UNKNOWN {
        growth::promise(device, kind, units);
    }
}

pub(crate) fn given_back(kind: Kind) {
    growth::keep_promise(hierarchy::id_of_current(), kind);
}

/// Books a use in one slot, if that is what the slot counts.
#[inline(always)]
fn spend_in<C: EbpfContext>(ctx: &C, index: u32, cgroup_id: u64, what: Use) {
    let Some(slot) = SLOTS.get_ptr_mut(index) else {
        return;
    };
    // SAFETY: a pointer into the map, here and below.
    let (kind, device) = unsafe {
        (
            (&raw const (*slot).kind).read_volatile(),
            (&raw const (*slot).device).read_volatile(),
        )
    };
    if kind != what.kind as u32 {
        return;
    }
    // SAFETY: see above.
    let mut limit = unsafe { spend(slot, what.units) };
    if what.always && !limit.is_armed() {
        // SAFETY: see above.
        limit = Limit::from_word(unsafe { (&raw const (*slot).limit).read_volatile() });
    }
    if limit.is_armed() {
        // SAFETY: see above.
        let amount = unsafe { since_mark(slot) };
        let crossing = Crossing {
            cgroup_id,
            amount,
            usage: NOT_READ,
            device,
            kind: what.kind,
            rung: what.rung,
        };
        maps::report(ctx, index, limit.word(), &crossing);
    }
}

/// Books `units`; the arming that they cross, or `Limit::DISARMED`.
///
/// # Safety
/// `slot` must point to a value of `SLOTS`.
#[inline(always)]
unsafe fn spend(slot: *mut Slot, units: u64) -> Limit {
    // SAFETY: by the caller's promise; `spent` is only ever added to.
    let (spent, limit) = unsafe {
        maps::add(&raw mut (*slot).spent, units);
        let spent = (&raw const (*slot).spent).read_volatile();
        (
            spent,
            Limit::from_word((&raw const (*slot).limit).read_volatile()),
        )
    };
    if limit.crossed(spent) {
        limit
    } else {
        Limit::DISARMED
    }
}

/// Units spent since the mark of the arming in force.
///
/// # Safety
/// `slot` must point to a value of `SLOTS`.
#[inline(always)]
unsafe fn since_mark(slot: *mut Slot) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe {
        let spent = (&raw const (*slot).spent).read_volatile();
        spent.wrapping_sub((&raw const (*slot).mark).read_volatile())
    }
}
