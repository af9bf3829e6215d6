//! From what a hook is handed to the file system's super block, its device and its blocks' size.

use core::ffi::c_void;

use aya_ebpf::helpers::generated::bpf_probe_read_kernel;
use eviction_ebpf::abi::UNKNOWN;

use crate::{
    globals::{INODE_SB, SB_BLOCK_BITS, SB_DEV},
    hierarchy, maps,
};

/// Major and minor 0 belong to no file system.
const NO_DEVICE: u32 = 0;

/// The address of a `super_block`, 0 if it cannot be told.
pub(crate) type Super = u64;

pub(crate) fn super_of_inode(inode: u64) -> Super {
    hierarchy::word(inode, INODE_SB.load(), 0)
}

/// That of a file system's private structure: by its layout, where BTF tells it (`offset`), or as learned from `statfs`
/// (modules have no BTF on 5.10).
#[inline(always)]
pub(crate) fn super_of_private(private: u64, offset: u32) -> Super {
    if offset == UNKNOWN {
        maps::learned_super(private)
    } else {
        hierarchy::word(private, offset, 0)
    }
}

pub(crate) fn device(super_block: Super) -> u32 {
    hierarchy::half(super_block, SB_DEV.load(), NO_DEVICE)
}

/// The device, and the bytes in so many of the file system's blocks.
#[inline(always)]
pub(crate) fn device_and_bytes(super_block: Super, blocks: u64) -> (u32, u64) {
    // Side by side in `struct super_block` (5.10 to 7.3): one read for both, at each block that anybody takes.
    let (device, bits) = if SB_BLOCK_BITS.load() == SB_DEV.load() + 4 {
        let both = hierarchy::word(super_block, SB_DEV.load(), NO_DEVICE.into());
        (both as u32, (both >> 32) as u8)
    } else {
        (device(super_block), byte(super_block, SB_BLOCK_BITS.load()))
    };
    (device, blocks << (bits & 31))
}

fn byte(base: u64, offset: u32) -> u8 {
    let mut value = 0_u8;
    // SAFETY: the helper checks the address; a fault leaves the value as it is.
    unsafe {
        bpf_probe_read_kernel(
            (&raw mut value).cast(),
            1,
            (base + u64::from(offset)) as *const c_void,
        );
    }
    value
}
