//! Disk space: where a file system takes blocks and where it gives them back. Spent on entry, before `statfs` shows it; given
//! back (from the growth only) once the function that does it has returned. Which functions, and how exact they are, was
//! measured on each kernel; the page is `storage-facts.md` in the project's shared notes.

mod btrfs;
mod ext4;
mod tmpfs;
mod written;
mod xfs;

use aya_ebpf::{
    EbpfContext,
    macros::{kprobe, kretprobe},
    programs::{ProbeContext, RetProbeContext},
};
use eviction_ebpf::abi::{Kind, Rung};

use crate::{
    filesystem::{self, Super},
    globals::{DENTRY_SB, SB_PRIVATE},
    maps, reading, spend,
};

/// At the return of every function that gives back, on the kprobe rungs.
#[kretprobe]
pub(crate) fn ev_given_kr(_ctx: RetProbeContext) -> u32 {
    spend::given_back(Kind::Bytes);
    0
}

/// `security_sb_statfs(dentry)` runs inside each `statfs`, before the file system's own part; each look calls it, so a super
/// block is known from the first look on.
#[kprobe(function = "security_sb_statfs")]
pub(crate) fn ev_statfs_kp(ctx: ProbeContext) -> u32 {
    if let Some(dentry) = ctx.arg::<u64>(0) {
        let super_block = reading::word(dentry, DENTRY_SB.load(), 0);
        let private = reading::word(super_block, SB_PRIVATE.load(), 0);
        if private != 0 {
            maps::learn_super(private, super_block);
        }
    }
    0
}

#[inline(always)]
fn take<C: EbpfContext>(ctx: &C, super_block: Super, blocks: u64, rung: Rung) {
    let (device, bytes) = filesystem::device_and_bytes(super_block, blocks);
    spend::bytes(ctx, device, bytes, rung);
}

/// Booked at once: the function has returned.
#[inline(always)]
fn gave(super_block: Super, blocks: u64) {
    let (device, bytes) = filesystem::device_and_bytes(super_block, blocks);
    spend::give_back(device, Kind::Bytes, bytes);
}

/// Booked by [`ev_given_kr`].
#[inline(always)]
fn giving(super_block: Super, blocks: u64) {
    let (device, bytes) = filesystem::device_and_bytes(super_block, blocks);
    spend::giving_back(device, Kind::Bytes, bytes);
}
