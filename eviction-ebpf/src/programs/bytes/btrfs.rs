//! btrfs. Reserving happens in the writer, long before `statfs` moves: that is the growth. When a transaction commits, extents
//! are taken, a moment before `statfs` shows it, mostly by kernel threads: that is spent again, or a credit given between the
//! two would never be used up by the data reserved before it. Metadata counts in whole chunks, each an event of its own.

use aya_ebpf::{
    macros::{kprobe, raw_tracepoint},
    programs::{ProbeContext, RawTracePointContext},
};
use eviction_ebpf::abi::{Kind, Rung, UNKNOWN};

use crate::{
    filesystem::{device, super_of_inode, super_of_private},
    globals::{BTRFS_SPACE_FS, BTRFS_SUPER, BTRFS_VNODE},
    maps, reading,
    spend::{self, Use},
};

/// Metadata is kept twice (the profile DUP, the default on a single disk); where it is not, this is too much by half.
const COPIES: u64 = 2;

/// `btrfs_reserve_data_bytes(fs_info, u64 bytes, flush)`; from 6.16 on a space_info comes first.
#[kprobe(function = "btrfs_reserve_data_bytes")]
pub(crate) fn ev_bt_resrv_kp(ctx: ProbeContext) -> u32 {
    if let (Some(owner), Some(bytes)) = (ctx.arg(0), ctx.arg(1)) {
        let what = Use::of(Kind::Bytes, bytes, Rung::KprobeBtrfsBytes);
        spend::device(&ctx, device_of(owner), what);
    }
    0
}

/// `btrfs_free_reserved_data_space_noquota(fs_info, u64 len)`, later `(inode, u64 len)`: no space was used for it.
#[kprobe(function = "btrfs_free_reserved_data_space_noquota")]
pub(crate) fn ev_bt_rel_kp(ctx: ProbeContext) -> u32 {
    if let (Some(owner), Some(bytes)) = (ctx.arg(0), ctx.arg(1)) {
        spend::giving_back(device_of(owner), Kind::Bytes, bytes);
    }
    0
}

/// `btrfs_reserved_extent_alloc(fs_info, u64 start, u64 len)`
#[raw_tracepoint(tracepoint = "btrfs_reserved_extent_alloc")]
pub(crate) fn ev_bt_extent(ctx: RawTracePointContext) -> i32 {
    let what = Use {
        grows: false,
        ..Use::of(Kind::Bytes, ctx.arg(2), Rung::TraceBtrfsBytes)
    };
    spend::device(&ctx, device_of_info(ctx.arg(0)), what);
    0
}

/// `btrfs_chunk_alloc(fs_info, map, u64 offset, u64 size)`: before the block group exists. A chunk of data costs nothing that
/// `statfs` would show; to tell the two apart takes more than this event is worth.
#[raw_tracepoint(tracepoint = "btrfs_chunk_alloc")]
pub(crate) fn ev_bt_chunk(ctx: RawTracePointContext) -> i32 {
    let size: u64 = ctx.arg(3);
    let what = Use {
        grows: false,
        always: true,
        ..Use::of(Kind::Bytes, size * COPIES, Rung::TraceBtrfsBytes)
    };
    spend::device(&ctx, device_of_info(ctx.arg(0)), what);
    0
}

fn device_of_info(info: u64) -> u32 {
    // Never `UNKNOWN`, which would count for every device.
    device(super_of_private(info, BTRFS_SUPER.load()))
}

/// The device of what may be an fs_info, a space_info or an inode: the first of the three that leads to a watched one.
fn device_of(owner: u64) -> u32 {
    let watched = |device: u32| maps::slot_of_device(device, Kind::Bytes) != UNKNOWN;
    let as_info = device_of_info(owner);
    if watched(as_info) || BTRFS_SPACE_FS.load() == UNKNOWN {
        return as_info;
    }
    let as_space = device_of_info(reading::word(owner, BTRFS_SPACE_FS.load(), 0));
    if watched(as_space) || BTRFS_VNODE.load() == UNKNOWN {
        return as_space;
    }
    device(super_of_inode(owner + u64::from(BTRFS_VNODE.load())))
}
