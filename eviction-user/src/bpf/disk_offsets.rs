//! Where the members lie that the hooks of file systems read, and what else they have to know. Each stands for itself: a file
//! system whose module is not loaded has none of its own.

use std::collections::BTreeMap;

use eviction_ebpf::abi::names::global;

use super::offsets::KernelTypes;

/// The global that takes an offset, and the member whose it is.
const MEMBERS: [(&str, &str, &str); 22] = [
    (global::INODE_NLINK, "inode", "i_nlink"),
    (global::SB_BLOCK_BITS, "super_block", "s_blocksize_bits"),
    (global::SB_PRIVATE, "super_block", "s_fs_info"),
    (global::DENTRY_SB, "dentry", "d_sb"),
    (global::EXT4_SUPER, "ext4_sb_info", "s_sb"),
    (global::EXT4_CLUSTER_BITS, "ext4_sb_info", "s_cluster_bits"),
    (global::EXT4_AR_INODE, "ext4_allocation_request", "inode"),
    (global::EXT4_AR_LEN, "ext4_allocation_request", "len"),
    (global::EXT4_AR_FLAGS, "ext4_allocation_request", "flags"),
    (global::XFS_SUPER, "xfs_mount", "m_super"),
    (global::XFS_TRANS_MOUNT, "xfs_trans", "t_mountp"),
    (global::XFS_TRANS_USED, "xfs_trans", "t_blk_res_used"),
    (global::XFS_IREC_COUNT, "xfs_bmbt_irec", "br_blockcount"),
    (global::XFS_VNODE, "xfs_inode", "i_vnode"),
    (global::BTRFS_SUPER, "btrfs_fs_info", "sb"),
    (global::BTRFS_SPACE_FS, "btrfs_space_info", "fs_info"),
    (global::BTRFS_VNODE, "btrfs_inode", "vfs_inode"),
    (global::MAPPING_HOST, "address_space", "host"),
    (global::KIOCB_FILE, "kiocb", "ki_filp"),
    (global::KIOCB_FLAGS, "kiocb", "ki_flags"),
    (global::FILE_INODE, "file", "f_inode"),
    (global::ITER_COUNT, "iov_iter", "count"),
];

pub(super) fn find(types: &KernelTypes) -> BTreeMap<String, u32> {
    let members = MEMBERS.iter().filter_map(|(global, structure, member)| {
        Some(((*global).to_owned(), types.offset(structure, member)?))
    });
    let arguments = types
        .tracepoint_arguments("ext4_da_reserve_space")
        .map(|count| (global::EXT4_RESERVE_ARGS.to_owned(), count));
    members.chain(arguments).collect()
}

/// The member that a global tells the place of, as C writes it; the global's own name for what is no member.
pub(super) fn member(global: &'static str) -> String {
    let found = MEMBERS.iter().find(|(name, ..)| *name == global);
    found.map_or_else(
        || global.to_owned(),
        |(_, structure, member)| format!("{structure}.{member}"),
    )
}

/// The globals among what was found, by their names in the object; a recording may have others.
pub(super) fn globals(found: &BTreeMap<String, u32>) -> impl Iterator<Item = (&'static str, u32)> {
    let known = MEMBERS.iter().map(|(global, ..)| *global);
    known
        .chain([global::EXT4_RESERVE_ARGS])
        .filter_map(|name| Some((name, *found.get(name)?)))
}
