//! Inodes: where one is made.

use aya_ebpf::{
    EbpfContext,
    macros::{fentry, kprobe, raw_tracepoint},
    programs::{FEntryContext, ProbeContext, RawTracePointContext},
};
use eviction_ebpf::abi::{Rung, UNKNOWN};

use crate::{
    globals::{INODE_ARG, INODE_SB, SB_DEV, XFS_VNODE},
    hierarchy, spend,
};

/// `inode_init_owner`: once per new inode and file-system layer. The inode is its first argument up to 5.11, its second
/// since (the mount's user namespace, later its id map, came first).
#[fentry(function = "inode_init_owner")]
pub(crate) fn ev_inode_fe(ctx: FEntryContext) -> i32 {
    // Two constant indices: the verifier wants to see which argument is read.
    let inode: u64 = if INODE_ARG.load() == 0 {
        ctx.arg(0)
    } else {
        ctx.arg(1)
    };
    created(&ctx, inode, Rung::FentryInode)
}

#[kprobe(function = "inode_init_owner")]
pub(crate) fn ev_inode_kp(ctx: ProbeContext) -> u32 {
    let inode: Option<u64> = if INODE_ARG.load() == 0 {
        ctx.arg(0)
    } else {
        ctx.arg(1)
    };
    if let Some(inode) = inode {
        created(&ctx, inode, Rung::KprobeInode);
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
        spend::inode(&ctx, None, Rung::TraceXfs);
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

#[inline(always)]
fn created<C: EbpfContext>(ctx: &C, inode: u64, rung: Rung) -> i32 {
    if INODE_SB.load() == UNKNOWN {
        spend::inode(ctx, None, rung);
    } else if let Some(device) =
        hierarchy::word(inode, INODE_SB.load()).and_then(|sb| hierarchy::half(sb, SB_DEV.load()))
    {
        spend::inode(ctx, Some(device), rung);
    }
    0
}
