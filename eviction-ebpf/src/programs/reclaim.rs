//! Direct reclaim: a task that needs memory looks for some itself, and waits for it. For the node's sake
//! (`mm_vmscan_direct_reclaim_*`) or for a cgroup's limit (`mm_vmscan_memcg_reclaim_*`); the two never nest, because a task
//! that reclaims (`PF_MEMALLOC`) does not do so again.

use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

use crate::observed;

/// `mm_vmscan_direct_reclaim_begin` and `mm_vmscan_memcg_reclaim_begin`; their arguments differ between kernels.
#[raw_tracepoint(tracepoint = "mm_vmscan_direct_reclaim_begin")]
pub(crate) fn ev_reclaim_beg(_ctx: RawTracePointContext) -> i32 {
    observed::reclaim_begins();
    0
}

/// `mm_vmscan_direct_reclaim_end` and `mm_vmscan_memcg_reclaim_end`.
#[raw_tracepoint(tracepoint = "mm_vmscan_direct_reclaim_end")]
pub(crate) fn ev_reclaim_end(_ctx: RawTracePointContext) -> i32 {
    observed::reclaim_ends();
    0
}
