//! ext4. `ext4_claim_free_clusters` sees every reservation of data, but not the extent-tree blocks that writeback allocates
//! under it: those pass `ext4_mb_new_blocks` with `EXT4_MB_DELALLOC_RESERVED` and without `EXT4_MB_HINT_DATA`.

use aya_ebpf::{
    EbpfContext,
    macros::{btf_tracepoint, fentry, fexit, kprobe, raw_tracepoint},
    programs::{
        BtfTracePointContext, FEntryContext, FExitContext, ProbeContext, RawTracePointContext,
    },
};
use eviction_ebpf::abi::{Rung, UNKNOWN};

use super::{gave, giving, take};
use crate::{
    filesystem::{self, super_of_inode, super_of_private},
    globals::{
        EXT4_AR_FLAGS, EXT4_AR_INODE, EXT4_AR_LEN, EXT4_CLUSTER_BITS, EXT4_RESERVE_ARGS, EXT4_SUPER,
    },
    reading, spend,
};

/// `EXT4_MB_HINT_DATA` and `EXT4_MB_DELALLOC_RESERVED`, the same on 5.10 to 7.3.
const DATA_OR_RESERVED: u32 = 0x420;
const RESERVED: u32 = 0x400;

/// `ext4_claim_free_clusters(sbi, s64 nclusters, flags)`
#[fentry(function = "ext4_claim_free_clusters")]
pub(crate) fn ev_e4_claim_fe(ctx: FEntryContext) -> i32 {
    claim(&ctx, ctx.arg(0), ctx.arg(1), Rung::FentryExt4Bytes);
    0
}

#[kprobe(function = "ext4_claim_free_clusters")]
pub(crate) fn ev_e4_claim_kp(ctx: ProbeContext) -> u32 {
    if let (Some(info), Some(clusters)) = (ctx.arg(0), ctx.arg(1)) {
        claim(&ctx, info, clusters, Rung::KprobeExt4Bytes);
    }
    0
}

/// `ext4_mb_new_blocks(handle, ar, errp)`
#[fentry(function = "ext4_mb_new_blocks")]
pub(crate) fn ev_e4_new_fe(ctx: FEntryContext) -> i32 {
    new_blocks(&ctx, ctx.arg(1), Rung::FentryExt4Bytes);
    0
}

#[kprobe(function = "ext4_mb_new_blocks")]
pub(crate) fn ev_e4_new_kp(ctx: ProbeContext) -> u32 {
    if let Some(request) = ctx.arg(1) {
        new_blocks(&ctx, request, Rung::KprobeExt4Bytes);
    }
    0
}

/// `ext4_da_release_space(inode, int to_free)`
#[fexit(function = "ext4_da_release_space")]
pub(crate) fn ev_e4_rel_fx(ctx: FExitContext) -> i32 {
    let (inode, blocks): (u64, u32) = (ctx.arg(0), ctx.arg(1));
    gave(super_of_inode(inode), blocks.into());
    0
}

#[kprobe(function = "ext4_da_release_space")]
pub(crate) fn ev_e4_rel_kp(ctx: ProbeContext) -> u32 {
    if let (Some(inode), Some(blocks)) = (ctx.arg::<u64>(0), ctx.arg::<u32>(1)) {
        giving(super_of_inode(inode), blocks.into());
    }
    0
}

/// `ext4_free_blocks(handle, inode, bh, block, unsigned long count, flags)`
#[fexit(function = "ext4_free_blocks")]
pub(crate) fn ev_e4_free_fx(ctx: FExitContext) -> i32 {
    gave(super_of_inode(ctx.arg(1)), ctx.arg(4));
    0
}

#[kprobe(function = "ext4_free_blocks")]
pub(crate) fn ev_e4_free_kp(ctx: ProbeContext) -> u32 {
    if let (Some(inode), Some(count)) = (ctx.arg(1), ctx.arg(4)) {
        giving(super_of_inode(inode), count);
    }
    0
}

/// `ext4_da_update_reserve_space(inode, int used, int quota_claim)`: without a claim, what was reserved is given back.
#[fexit(function = "ext4_da_update_reserve_space")]
pub(crate) fn ev_e4_upd_fx(ctx: FExitContext) -> i32 {
    let (used, claim): (u32, u32) = (ctx.arg(1), ctx.arg(2));
    if claim == 0 {
        gave(super_of_inode(ctx.arg(0)), used.into());
    }
    0
}

#[kprobe(function = "ext4_da_update_reserve_space")]
pub(crate) fn ev_e4_upd_kp(ctx: ProbeContext) -> u32 {
    if let (Some(inode), Some(used), Some(0_u32)) =
        (ctx.arg(0), ctx.arg::<u32>(1), ctx.arg::<u32>(2))
    {
        giving(super_of_inode(inode), used.into());
    }
    0
}

/// `ext4_da_reserve_space(inode)`, from 6.9 on `(inode, int nr_resv)`: after the reservation.
#[raw_tracepoint(tracepoint = "ext4_da_reserve_space")]
pub(crate) fn ev_e4_reserve(ctx: RawTracePointContext) -> i32 {
    // The branch that reads an argument too many is never seen by the verifier: the global is a constant to it.
    let blocks = if EXT4_RESERVE_ARGS.load() > 1 {
        ctx.arg::<u32>(1)
    } else {
        1
    };
    take(
        &ctx,
        super_of_inode(ctx.arg(0)),
        blocks.into(),
        Rung::TraceExt4Bytes,
    );
    0
}

/// The same, where the verifier knows what an inode is.
#[btf_tracepoint(function = "ext4_da_reserve_space")]
pub(crate) fn ev_e4_reserve_t(ctx: BtfTracePointContext) -> i32 {
    let blocks = if EXT4_RESERVE_ARGS.load() > 1 {
        ctx.arg::<u32>(1)
    } else {
        1
    };
    let (device, bytes) = filesystem::device_and_bytes_of_typed(ctx.arg(0), blocks.into());
    spend::bytes(&ctx, device, bytes, Rung::TraceExt4Bytes);
    0
}

/// `ext4_allocate_blocks(ar, block)`: all but data that was reserved before.
#[raw_tracepoint(tracepoint = "ext4_allocate_blocks")]
pub(crate) fn ev_e4_allocate(ctx: RawTracePointContext) -> i32 {
    let request: u64 = ctx.arg(0);
    if flags(request) & DATA_OR_RESERVED != DATA_OR_RESERVED {
        request_blocks(&ctx, request, Rung::TraceExt4Bytes);
    }
    0
}

/// `ext4_da_release_space(inode, int freed_blocks)`: after the release.
#[raw_tracepoint(tracepoint = "ext4_da_release_space")]
pub(crate) fn ev_e4_release(ctx: RawTracePointContext) -> i32 {
    let blocks: u32 = ctx.arg(1);
    gave(super_of_inode(ctx.arg(0)), blocks.into());
    0
}

/// `ext4_free_blocks(inode, u64 block, unsigned long count, flags)`: at the start of the freeing, so for a moment the growth is
/// ahead of `statfs`.
#[raw_tracepoint(tracepoint = "ext4_free_blocks")]
pub(crate) fn ev_e4_free(ctx: RawTracePointContext) -> i32 {
    gave(super_of_inode(ctx.arg(0)), ctx.arg(2));
    0
}

#[inline(always)]
fn claim<C: EbpfContext>(ctx: &C, info: u64, clusters: u64, rung: Rung) {
    let super_block = super_of_private(info, EXT4_SUPER.load());
    let bits = if EXT4_CLUSTER_BITS.load() == UNKNOWN {
        0
    } else {
        reading::half(info, EXT4_CLUSTER_BITS.load(), 0)
    };
    take(ctx, super_block, clusters << (bits & 31), rung);
}

#[inline(always)]
fn new_blocks<C: EbpfContext>(ctx: &C, request: u64, rung: Rung) {
    if flags(request) & DATA_OR_RESERVED == RESERVED {
        request_blocks(ctx, request, rung);
    }
}

#[inline(always)]
fn request_blocks<C: EbpfContext>(ctx: &C, request: u64, rung: Rung) {
    let inode = reading::word(request, EXT4_AR_INODE.load(), 0);
    let blocks = reading::half(request, EXT4_AR_LEN.load(), 0);
    take(ctx, super_of_inode(inode), blocks.into(), rung);
}

#[inline(always)]
fn flags(request: u64) -> u32 {
    reading::half(request, EXT4_AR_FLAGS.load(), 0)
}
