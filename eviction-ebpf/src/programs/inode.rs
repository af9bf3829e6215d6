//! Inodes: where one is made.

use core::hint::black_box;

use aya_ebpf::{
    EbpfContext,
    macros::{btf_tracepoint, fentry, kprobe, raw_tracepoint},
    programs::{BtfTracePointContext, FEntryContext, ProbeContext, RawTracePointContext},
};
use eviction_ebpf::abi::{Kind, Rung, UNKNOWN};

use crate::{
    filesystem,
    globals::{INODE_ARG, INODE_NLINK, INODE_SB, XFS_VNODE},
    reading,
    spend::{self, Use},
};

/// `inode_init_owner`: once per new inode and file-system layer. The inode is its first argument up to 5.11, its second
/// since (the mount's user namespace, later its id map, came first).
#[fentry(function = "inode_init_owner")]
pub(crate) fn ev_inode_fe(ctx: FEntryContext) -> i32 {
    created(&ctx, chosen(ctx.arg(0), ctx.arg(1)), Rung::FentryInode)
}

#[kprobe(function = "inode_init_owner")]
pub(crate) fn ev_inode_kp(ctx: ProbeContext) -> u32 {
    if let (Some(first), Some(second)) = (ctx.arg(0), ctx.arg(1)) {
        created(&ctx, chosen(first, second), Rung::KprobeInode);
    }
    0
}

/// `ext4_allocate_inode(inode, dir, mode)`
#[raw_tracepoint(tracepoint = "ext4_allocate_inode")]
pub(crate) fn ev_inode_ext4(ctx: RawTracePointContext) -> i32 {
    created(&ctx, ctx.arg(0), Rung::TraceExt4)
}

/// The same, where the verifier knows what an inode is.
#[btf_tracepoint(function = "ext4_allocate_inode")]
pub(crate) fn ev_inode_ext4_t(ctx: BtfTracePointContext) -> i32 {
    let device = filesystem::device_of_typed(ctx.arg(0));
    spend::device(&ctx, device, one(Rung::TraceExt4));
    0
}

/// `xfs_create(dp, name)` and `xfs_symlink(dp, name)`: `dp` is the directory, as `struct xfs_inode`. Attempts that fail
/// count too: a needless look at worst.
#[raw_tracepoint(tracepoint = "xfs_create")]
pub(crate) fn ev_inode_xfs(ctx: RawTracePointContext) -> i32 {
    if XFS_VNODE.load() == UNKNOWN {
        spend::device(&ctx, UNKNOWN, one(Rung::TraceXfs));
        return 0;
    }
    created(
        &ctx,
        ctx.arg::<u64>(0) + u64::from(XFS_VNODE.load()),
        Rung::TraceXfs,
    )
}

/// `btrfs_inode_new(inode)`
#[raw_tracepoint(tracepoint = "btrfs_inode_new")]
pub(crate) fn ev_inode_btrfs(ctx: RawTracePointContext) -> i32 {
    created(&ctx, ctx.arg(0), Rung::TraceBtrfs)
}

/// `clear_inode(inode)`: the end of an inode in memory; with no link left, also on disk. On ext4 it runs a moment before
/// `statfs` shows the inode free again, on xfs from 6.1 on a worker's delay before. Only the growth shrinks by it.
#[fentry(function = "clear_inode")]
pub(crate) fn ev_freed_fe(ctx: FEntryContext) -> i32 {
    cleared(ctx.arg(0))
}

#[kprobe(function = "clear_inode")]
pub(crate) fn ev_freed_kp(ctx: ProbeContext) -> u32 {
    if let Some(inode) = ctx.arg(0) {
        cleared(inode);
    }
    0
}

/// `ext4_free_inode(inode)`
#[raw_tracepoint(tracepoint = "ext4_free_inode")]
pub(crate) fn ev_freed_ext4(ctx: RawTracePointContext) -> i32 {
    freed(ctx.arg(0))
}

/// The same, where the verifier knows what an inode is.
#[btf_tracepoint(function = "ext4_free_inode")]
pub(crate) fn ev_freed_ext4_t(ctx: BtfTracePointContext) -> i32 {
    spend::give_back(filesystem::device_of_typed(ctx.arg(0)), Kind::Inodes, 1);
    0
}

/// `btrfs_inode_evict(inode)`: cache drops too.
#[raw_tracepoint(tracepoint = "btrfs_inode_evict")]
pub(crate) fn ev_freed_btrfs(ctx: RawTracePointContext) -> i32 {
    cleared(ctx.arg(0))
}

#[inline(always)]
fn cleared(inode: u64) -> i32 {
    // An inode that leaves the cache only has links; unreadable ones are taken to have them.
    if reading::half(inode, INODE_NLINK.load(), 1) == 0 {
        freed(inode);
    }
    0
}

#[inline(always)]
fn freed(inode: u64) -> i32 {
    let device = filesystem::device(filesystem::super_of_inode(inode));
    spend::give_back(device, Kind::Inodes, 1);
    0
}

/// Both arguments are read before one is chosen: left to itself the compiler chooses the address first, and the verifier
/// wants every offset into the context to be a constant.
#[inline(always)]
pub(super) fn chosen(first: u64, second: u64) -> u64 {
    let (first, second) = (black_box(first), black_box(second));
    if INODE_ARG.load() == 0 { first } else { second }
}

const fn one(rung: Rung) -> Use {
    Use::of(Kind::Inodes, 1, rung)
}

#[inline(always)]
fn created<C: EbpfContext>(ctx: &C, inode: u64, rung: Rung) -> i32 {
    let mut device = UNKNOWN;
    if INODE_SB.load() != UNKNOWN {
        device = filesystem::device(filesystem::super_of_inode(inode));
    }
    spend::device(ctx, device, one(rung));
    0
}
