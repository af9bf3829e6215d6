//! File systems that are not seen taking space: what is written bounds it. Each folio of the page cache counts whole when it turns
//! dirty, which is where buffered writes, splices, copies and stores through mappings of every file system meet, one by one as
//! they go on; writes past the cache and preallocations count when they begin, with all that they ask for.
//!
//! Over: what is overwritten costs again after each writeback. Under: what a file system adds of its own (directories,
//! extents, clusters larger than a page), for which each inode made counts some blocks; a hole punched into a dirty large
//! folio and filled again; of one call for more than a credit's margin (`credit::EXTENT_BYTES`) the part that is taken
//! after the look. So the timer goes on beside these events. xfs is never counted so: it takes a multiple ahead of a
//! stream. tmpfs turns no folio dirty.

use aya_ebpf::{
    EbpfContext,
    macros::{fentry, kprobe, raw_tracepoint},
    programs::{FEntryContext, ProbeContext, RawTracePointContext},
};
use eviction_ebpf::abi::{Kind, PAGE_BYTES, Rung, UNKNOWN};

use crate::{
    filesystem::{device, device_and_bytes, super_of_inode},
    folio,
    globals::{FILE_INODE, ITER_COUNT, KIOCB_FILE, KIOCB_FLAGS, MAPPING_HOST},
    maps,
    programs::inode,
    reading,
    spend::{self, Use},
};

/// `IOCB_DIRECT`, the same on 5.10 to 7.3.
const DIRECT: u32 = 1 << 17;
/// `FALLOC_FL_PUNCH_HOLE` and `FALLOC_FL_COLLAPSE_RANGE`
const FREES: u32 = 0x02 | 0x08;
/// Blocks for a new inode: its own first one, its directory's next one, and one each for what both may add (an index of names,
/// a list of extents or attributes).
const BLOCKS_OF_INODE: u64 = 4;

/// `writeback_dirty_folio(folio, mapping)`, up to 5.17 `writeback_dirty_page(page, mapping)`
#[raw_tracepoint]
pub(crate) fn ev_dirtied(ctx: RawTracePointContext) -> i32 {
    let device = device(super_of_inode(reading::word(
        ctx.arg(1),
        MAPPING_HOST.load(),
        0,
    )));
    // Folios of all file systems come by: only those that matter are looked into.
    let slot = maps::slot_of_device(device, Kind::Written);
    if slot != UNKNOWN {
        let bytes = folio::pages::<reading::Probed>(ctx.arg(0)) * PAGE_BYTES;
        spend::watched(&ctx, slot, device, written(bytes, Rung::TraceWritten));
    }
    0
}

/// `generic_write_checks(iocb, from)`: at the start of each write.
#[fentry(function = "generic_write_checks")]
pub(crate) fn ev_direct_fe(ctx: FEntryContext) -> i32 {
    direct(&ctx, ctx.arg(0), ctx.arg(1), Rung::FentryWritten);
    0
}

#[kprobe(function = "generic_write_checks")]
pub(crate) fn ev_direct_kp(ctx: ProbeContext) -> u32 {
    if let (Some(iocb), Some(from)) = (ctx.arg(0), ctx.arg(1)) {
        direct(&ctx, iocb, from, Rung::KprobeWritten);
    }
    0
}

/// `vfs_fallocate(file, int mode, loff_t offset, loff_t len)`
#[fentry(function = "vfs_fallocate")]
pub(crate) fn ev_fallocate_fe(ctx: FEntryContext) -> i32 {
    allocate(
        &ctx,
        ctx.arg(0),
        ctx.arg(1),
        ctx.arg(3),
        Rung::FentryWritten,
    );
    0
}

#[kprobe(function = "vfs_fallocate")]
pub(crate) fn ev_fallocate_kp(ctx: ProbeContext) -> u32 {
    if let (Some(file), Some(mode), Some(length)) = (ctx.arg(0), ctx.arg(1), ctx.arg(3)) {
        allocate(&ctx, file, mode, length, Rung::KprobeWritten);
    }
    0
}

/// `inode_init_owner`, see `programs/inode.rs`.
#[fentry(function = "inode_init_owner")]
pub(crate) fn ev_named_fe(ctx: FEntryContext) -> i32 {
    let made = inode::chosen(ctx.arg(0), ctx.arg(1));
    blocks(&ctx, made, 0, BLOCKS_OF_INODE, Rung::FentryWritten);
    0
}

#[kprobe(function = "inode_init_owner")]
pub(crate) fn ev_named_kp(ctx: ProbeContext) -> u32 {
    if let (Some(first), Some(second)) = (ctx.arg(0), ctx.arg(1)) {
        let made = inode::chosen(first, second);
        blocks(&ctx, made, 0, BLOCKS_OF_INODE, Rung::KprobeWritten);
    }
    0
}

#[inline(always)]
fn direct<C: EbpfContext>(ctx: &C, iocb: u64, from: u64, rung: Rung) {
    // Flags that cannot be read are taken for those of a direct write.
    if reading::half(iocb, KIOCB_FLAGS.load(), DIRECT) & DIRECT == 0 {
        return;
    }
    let file = reading::word(iocb, KIOCB_FILE.load(), 0);
    let inode = reading::word(file, FILE_INODE.load(), 0);
    let count = reading::word(from, ITER_COUNT.load(), 0);
    // It may begin and end within blocks.
    blocks(ctx, inode, count, 2, rung);
}

#[inline(always)]
fn allocate<C: EbpfContext>(ctx: &C, file: u64, mode: u32, length: u64, rung: Rung) {
    if mode & FREES == 0 {
        let inode = reading::word(file, FILE_INODE.load(), 0);
        blocks(ctx, inode, length, 2, rung);
    }
}

/// Bytes, and whole blocks besides.
#[inline(always)]
fn blocks<C: EbpfContext>(ctx: &C, inode: u64, bytes: u64, blocks: u64, rung: Rung) {
    let (device, more) = device_and_bytes(super_of_inode(inode), blocks);
    spend::device(ctx, device, written(bytes + more, rung));
}

#[inline(always)]
const fn written(bytes: u64, rung: Rung) -> Use {
    Use {
        grows: false,
        ..Use::of(Kind::Written, bytes, rung)
    }
}
