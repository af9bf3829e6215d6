//! Inodes: where one is made.

use core::hint::black_box;

use aya_ebpf::{
    EbpfContext,
    macros::{fentry, kprobe, raw_tracepoint},
    programs::{FEntryContext, ProbeContext, RawTracePointContext},
};
use eviction_ebpf::abi::{Kind, Rung, UNKNOWN};

use crate::{
    globals::{INODE_ARG, INODE_SB, SB_DEV, XFS_VNODE},
    hierarchy,
    spend::{self, Use},
};

/// Major and minor 0 belong to no file system.
const NO_DEVICE: u32 = 0;

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

/// Both arguments are read before one is chosen: left to itself the compiler chooses the address first, and the verifier
/// wants every offset into the context to be a constant.
#[inline(always)]
fn chosen(first: u64, second: u64) -> u64 {
    let (first, second) = (black_box(first), black_box(second));
    if INODE_ARG.load() == 0 { first } else { second }
}

const fn one(rung: Rung) -> Use {
    Use {
        kind: Kind::Inodes,
        units: 1,
        rung,
    }
}

#[inline(always)]
fn created<C: EbpfContext>(ctx: &C, inode: u64, rung: Rung) -> i32 {
    let mut device = UNKNOWN;
    if INODE_SB.load() != UNKNOWN {
        let super_block = hierarchy::word(inode, INODE_SB.load(), 0);
        device = hierarchy::half(super_block, SB_DEV.load(), NO_DEVICE);
    }
    spend::device(ctx, device, one(rung));
    0
}
