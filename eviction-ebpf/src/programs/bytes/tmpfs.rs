//! tmpfs. `statfs` moves with each page, also for one that a read through a mapping brings into a hole.

use aya_ebpf::{
    EbpfContext,
    macros::{fentry, fexit, kprobe},
    programs::{FEntryContext, FExitContext, ProbeContext},
};
use eviction_ebpf::abi::{Rung, WORST_FOLIO_PAGES};

use super::{gave, giving, take};
use crate::filesystem::super_of_inode;

/// `shmem_alloc_and_acct_page(gfp, inode, index, bool huge)`, `_folio` in 6.1. No function tells of their being given back.
#[fentry]
pub(crate) fn ev_tm_page_fe(ctx: FEntryContext) -> i32 {
    one(&ctx, ctx.arg(1), ctx.arg(3), Rung::FentryTmpfsBytes);
    0
}

#[kprobe]
pub(crate) fn ev_tm_page_kp(ctx: ProbeContext) -> u32 {
    if let (Some(inode), Some(huge)) = (ctx.arg(1), ctx.arg(3)) {
        one(&ctx, inode, huge, Rung::KprobeTmpfsBytes);
    }
    0
}

/// `shmem_inode_acct_blocks(inode, long pages)`, from 6.6 on.
#[fentry(function = "shmem_inode_acct_blocks")]
pub(crate) fn ev_tm_take_fe(ctx: FEntryContext) -> i32 {
    take(
        &ctx,
        super_of_inode(ctx.arg(0)),
        ctx.arg(1),
        Rung::FentryTmpfsBytes,
    );
    0
}

#[kprobe(function = "shmem_inode_acct_blocks")]
pub(crate) fn ev_tm_take_kp(ctx: ProbeContext) -> u32 {
    if let (Some(inode), Some(pages)) = (ctx.arg(0), ctx.arg(1)) {
        take(&ctx, super_of_inode(inode), pages, Rung::KprobeTmpfsBytes);
    }
    0
}

/// `shmem_inode_unacct_blocks(inode, long pages)`
#[fexit(function = "shmem_inode_unacct_blocks")]
pub(crate) fn ev_tm_give_fx(ctx: FExitContext) -> i32 {
    gave(super_of_inode(ctx.arg(0)), ctx.arg(1));
    0
}

#[kprobe(function = "shmem_inode_unacct_blocks")]
pub(crate) fn ev_tm_give_kp(ctx: ProbeContext) -> u32 {
    if let (Some(inode), Some(pages)) = (ctx.arg(0), ctx.arg(1)) {
        giving(super_of_inode(inode), pages);
    }
    0
}

#[inline(always)]
fn one<C: EbpfContext>(ctx: &C, inode: u64, huge: u64, rung: Rung) {
    // The flag is the low byte of its register.
    let pages = if huge & 0xff == 0 {
        1
    } else {
        u64::from(WORST_FOLIO_PAGES)
    };
    take(ctx, super_of_inode(inode), pages, rung);
}
