//! From what a hook is handed to the file system's super block, its device and its blocks' size.

use eviction_ebpf::abi::UNKNOWN;

use crate::{
    globals::{INODE_SB, SB_BLOCK_BITS, SB_DEV},
    maps,
    reading::{self, Probed, Reads, Typed},
};

/// Major and minor 0 belong to no file system.
const NO_DEVICE: u32 = 0;

/// The address of a `super_block`, 0 if it cannot be told.
pub(crate) type Super = u64;

pub(crate) fn super_of_inode(inode: u64) -> Super {
    reading::word(inode, INODE_SB.load(), 0)
}

/// That of a file system's private structure: by its layout, where BTF tells it (`offset`), or as learned from `statfs`
/// (modules have no BTF on 5.10).
#[inline(always)]
pub(crate) fn super_of_private(private: u64, offset: u32) -> Super {
    if offset == UNKNOWN {
        maps::learned_super(private)
    } else {
        reading::word(private, offset, 0)
    }
}

pub(crate) fn device(super_block: Super) -> u32 {
    reading::half(super_block, SB_DEV.load(), NO_DEVICE)
}

/// The device, and the bytes in so many of the file system's blocks.
#[inline(always)]
pub(crate) fn device_and_bytes(super_block: Super, blocks: u64) -> (u32, u64) {
    // Side by side in `struct super_block` (5.10 to 7.3): one read for both, at each block that anybody takes.
    let (device, bits) = if SB_BLOCK_BITS.load() == SB_DEV.load() + 4 {
        let both = reading::word(super_block, SB_DEV.load(), NO_DEVICE.into());
        (both as u32, (both >> 32) as u8)
    } else {
        (
            device(super_block),
            Probed::read::<u8>(super_block, SB_BLOCK_BITS.load(), 0),
        )
    };
    (device, blocks << (bits & 31))
}

/// The device of an inode whose type the verifier knows.
#[inline(always)]
pub(crate) fn device_of_typed(inode: u64) -> u32 {
    let super_block: Super = Typed::read(inode, INODE_SB.load(), 0);
    Typed::read(super_block, SB_DEV.load(), NO_DEVICE)
}

/// The same as [`device_and_bytes`] from an inode whose type the verifier knows.
#[inline(always)]
pub(crate) fn device_and_bytes_of_typed(inode: u64, blocks: u64) -> (u32, u64) {
    let super_block: Super = Typed::read(inode, INODE_SB.load(), 0);
    let device = Typed::read(super_block, SB_DEV.load(), NO_DEVICE);
    let bits: u8 = Typed::read(super_block, SB_BLOCK_BITS.load(), 0);
    (device, blocks << (bits & 31))
}
