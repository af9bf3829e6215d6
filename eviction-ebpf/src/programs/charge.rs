//! Memory: where pages are charged or brought in. Names are limited to 15 characters, which is what `bpftool` shows.

use aya_ebpf::{
    EbpfContext,
    macros::{btf_tracepoint, fentry, kprobe, perf_event, raw_tracepoint},
    programs::{
        BtfTracePointContext, FEntryContext, PerfEventContext, ProbeContext, RawTracePointContext,
    },
};
use eviction_ebpf::abi::Rung;

use crate::{
    folio,
    globals::PAGES_PER_FAULT,
    hierarchy, maps,
    reading::{Probed, Typed},
    spend::{self, Charge},
};

/// `page_counter_try_charge(counter, nr_pages, fail)`: the same three arguments from 5.10 to 7.3; called once per refill of
/// a CPU's stock.
#[fentry(function = "page_counter_try_charge")]
pub(crate) fn ev_charge_fe(ctx: FEntryContext) -> i32 {
    charge_counter(&ctx, ctx.arg(0), ctx.arg(1), Rung::FentryCharge)
}

#[kprobe(function = "page_counter_try_charge")]
pub(crate) fn ev_charge_kp(ctx: ProbeContext) -> u32 {
    if let (Some(counter), Some(pages)) = (ctx.arg(0), ctx.arg(1)) {
        charge_counter(&ctx, counter, pages, Rung::KprobeCharge);
    }
    0
}

/// The software event `page-faults`, one call per sample period. The event is raised at the start of the fault: its pages
/// are not in any counter yet.
#[perf_event]
pub(crate) fn ev_faults(ctx: PerfEventContext) -> u32 {
    let batch = maps::fault_batch();
    let units = batch * u64::from(PAGES_PER_FAULT.load());
    let owner = hierarchy::owner_of_current();
    spend::memory(
        &ctx,
        &Charge {
            owner,
            units,
            charging: 1,
            everywhere: batch > 1,
            rung: Rung::PerfFaults,
        },
    );
    0
}

/// `mm_filemap_add_to_page_cache(folio)`: pages that enter by read or write and never fault. They are charged by then. Like
/// faults they are booked in batches while the line is far, whoever brought them in.
#[raw_tracepoint(tracepoint = "mm_filemap_add_to_page_cache")]
pub(crate) fn ev_filemap(ctx: RawTracePointContext) -> i32 {
    entered_cache(&ctx, folio::pages::<Probed>(ctx.arg(0)))
}

/// The same, where the verifier knows what a folio is.
#[btf_tracepoint(function = "mm_filemap_add_to_page_cache")]
pub(crate) fn ev_filemap_t(ctx: BtfTracePointContext) -> i32 {
    entered_cache(&ctx, folio::pages::<Typed>(ctx.arg(0)))
}

#[inline(always)]
fn entered_cache<C: EbpfContext>(ctx: &C, pages: u64) -> i32 {
    let units = maps::collect(pages);
    if units == 0 {
        return 0;
    }
    let owner = hierarchy::owner_of_current();
    spend::memory(
        ctx,
        &Charge {
            owner,
            units,
            charging: 0,
            everywhere: maps::fault_batch() > 1,
            rung: Rung::TraceFilemap,
        },
    );
    0
}

/// `mm_page_alloc(page, order, gfp_flags, migratetype)`: every allocation, charged or not.
#[raw_tracepoint(tracepoint = "mm_page_alloc")]
pub(crate) fn ev_page_alloc(ctx: RawTracePointContext) -> i32 {
    let order: u32 = ctx.arg(1);
    let units = 1_u64 << (order & 31);
    let owner = hierarchy::owner_of_current();
    spend::memory(
        &ctx,
        &Charge {
            owner,
            units,
            charging: units,
            everywhere: false,
            rung: Rung::TracePageAlloc,
        },
    );
    0
}

#[inline(always)]
fn charge_counter<C: EbpfContext>(ctx: &C, counter: u64, pages: u64, rung: Rung) -> i32 {
    let owner = hierarchy::owner_of_counter(counter);
    spend::memory(
        ctx,
        &Charge {
            owner,
            units: pages,
            charging: pages,
            everywhere: false,
            rung,
        },
    );
    0
}
