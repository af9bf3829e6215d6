//! xfs. One counter of free blocks; what takes from it and gives to it has had three forms since 5.10.

use core::hint::black_box;

use aya_ebpf::{
    macros::{kprobe, raw_tracepoint},
    programs::{ProbeContext, RawTracePointContext},
};
use eviction_ebpf::abi::Rung;

use super::{giving, take};
use crate::{
    filesystem::{self, super_of_private},
    globals::{
        XFS_DELTA_ARG, XFS_IREC_COUNT, XFS_SUPER, XFS_TRANS_MOUNT, XFS_TRANS_USED, XFS_VNODE,
    },
    reading,
};

/// Blocks that a delayed allocation holds for its index, as measured for extents of up to 16 MiB; above that, 1 % more.
const INDEX_BLOCKS: u64 = 6;

/// `xfs_mod_fdblocks(mp, s64 delta, rsvd)` up to 6.0, `xfs_mod_freecounter(mp, counter, s64 delta, rsvd)` up to 6.7: negative
/// takes, positive gives back.
#[kprobe]
pub(crate) fn ev_xfs_mod_kp(ctx: ProbeContext) -> u32 {
    let (Some(mount), Some(second), Some(third)) =
        (ctx.arg::<u64>(0), ctx.arg::<u64>(1), ctx.arg::<u64>(2))
    else {
        return 0;
    };
    let (second, third) = (black_box(second), black_box(third));
    let delta = if XFS_DELTA_ARG.load() == 1 {
        second
    } else {
        third
    };
    let super_block = super_of_private(mount, XFS_SUPER.load());
    if delta >> 63 != 0 {
        take(
            &ctx,
            super_block,
            delta.wrapping_neg(),
            Rung::KprobeXfsBytes,
        );
    } else {
        giving(super_block, delta);
    }
    0
}

/// `xfs_dec_freecounter(mp, counter, u64 delta, rsvd)`
#[kprobe(function = "xfs_dec_freecounter")]
pub(crate) fn ev_xfs_dec_kp(ctx: ProbeContext) -> u32 {
    if let (Some(mount), Some(blocks)) = (ctx.arg(0), ctx.arg(2)) {
        let super_block = super_of_private(mount, XFS_SUPER.load());
        take(&ctx, super_block, blocks, Rung::KprobeXfsBytes);
    }
    0
}

/// `xfs_add_freecounter(mp, counter, u64 delta)`
#[kprobe(function = "xfs_add_freecounter")]
pub(crate) fn ev_xfs_add_kp(ctx: ProbeContext) -> u32 {
    if let (Some(mount), Some(blocks)) = (ctx.arg(0), ctx.arg(2)) {
        giving(super_of_private(mount, XFS_SUPER.load()), blocks);
    }
    0
}

/// `xfs_trans_commit(tp, caller)`: what the transaction used of its reservation. Nothing says what is given back.
#[raw_tracepoint(tracepoint = "xfs_trans_commit")]
pub(crate) fn ev_xfs_commit(ctx: RawTracePointContext) -> i32 {
    let transaction: u64 = ctx.arg(0);
    let mount = reading::word(transaction, XFS_TRANS_MOUNT.load(), 0);
    let blocks = reading::half(transaction, XFS_TRANS_USED.load(), 0);
    if blocks > 0 {
        let super_block = super_of_private(mount, XFS_SUPER.load());
        take(&ctx, super_block, blocks.into(), Rung::TraceXfsBytes);
    }
    0
}

/// `xfs_iomap_alloc(ip, offset, count, whichfork, irec)`: a delayed allocation.
#[raw_tracepoint(tracepoint = "xfs_iomap_alloc")]
pub(crate) fn ev_xfs_alloc(ctx: RawTracePointContext) -> i32 {
    let inode = ctx.arg::<u64>(0) + u64::from(XFS_VNODE.load());
    let blocks = reading::word(ctx.arg(4), XFS_IREC_COUNT.load(), 0);
    take(
        &ctx,
        filesystem::super_of_inode(inode),
        blocks + blocks / 100 + INDEX_BLOCKS,
        Rung::TraceXfsBytes,
    );
    0
}
