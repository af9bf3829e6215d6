//! Facts of the running kernel, filled in by the loader before the verifier sees the programs. The section is frozen, so
//! the verifier treats them as constants and drops the branches they rule out. Meanings: `abi::names::global`.

use aya_ebpf::Global;
use eviction_ebpf::abi::{ABI, FolioSize, UNKNOWN, WORST_FOLIO_PAGES};

macro_rules! facts {
    ($($name:ident = $default:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) static $name: Global<u32> = Global::new($default);
        )*
    };
}

facts! {
    EVICTION_ABI_6 = ABI as u32;
    TASK_CGROUPS = UNKNOWN;
    CSS_SET_MEMORY = UNKNOWN;
    TASK_TYPED = 0;
    CSS_CGROUP = UNKNOWN;
    CSS_PARENT = UNKNOWN;
    CGROUP_KN = UNKNOWN;
    CGROUP_MEMORY = UNKNOWN;
    KN_ID = UNKNOWN;
    COUNTER_FROM_CSS = UNKNOWN;
    COUNTER_USAGE = UNKNOWN;
    MEMORY_ON_V1 = 0;
    CGROUP_ROOT = UNKNOWN;
    ROOT_HIERARCHY = UNKNOWN;
    MEMORY_HIERARCHY = 0;
    KN_PARENT = UNKNOWN;
    KN_NAME = UNKNOWN;
    VICTIM_IS_TASK = 0;
    TASK_TGID = UNKNOWN;
    INODE_SB = UNKNOWN;
    SB_DEV = UNKNOWN;
    INODE_ARG = UNKNOWN;
    XFS_VNODE = UNKNOWN;
    INODE_NLINK = UNKNOWN;
    SB_BLOCK_BITS = UNKNOWN;
    SB_PRIVATE = UNKNOWN;
    DENTRY_SB = UNKNOWN;
    EXT4_SUPER = UNKNOWN;
    EXT4_CLUSTER_BITS = UNKNOWN;
    EXT4_AR_INODE = UNKNOWN;
    EXT4_AR_LEN = UNKNOWN;
    EXT4_AR_FLAGS = UNKNOWN;
    EXT4_RESERVE_ARGS = 1;
    XFS_SUPER = UNKNOWN;
    XFS_DELTA_ARG = 2;
    XFS_TRANS_MOUNT = UNKNOWN;
    XFS_TRANS_USED = UNKNOWN;
    XFS_IREC_COUNT = UNKNOWN;
    BTRFS_SUPER = UNKNOWN;
    BTRFS_SPACE_FS = UNKNOWN;
    BTRFS_VNODE = UNKNOWN;
    MAPPING_HOST = UNKNOWN;
    KIOCB_FILE = UNKNOWN;
    KIOCB_FLAGS = UNKNOWN;
    FILE_INODE = UNKNOWN;
    ITER_COUNT = UNKNOWN;
    FOLIO_FLAGS = UNKNOWN;
    HEAD_BIT = UNKNOWN;
    FOLIO_SIZE = UNKNOWN;
    FOLIO_SIZE_KIND = FolioSize::Unknown as u32;
    PAGES_PER_FAULT = WORST_FOLIO_PAGES;
    CSS_NODE_INFO = UNKNOWN;
    NODE_INFO_PGDAT = UNKNOWN;
    PGDAT_STATS = UNKNOWN;
    STAT_ANON = UNKNOWN;
    STAT_FILE = UNKNOWN;
    STAT_INACTIVE_FILE = UNKNOWN;
}

/// The address of `vm_node_stat`, 0 if kallsyms does not tell it.
#[unsafe(no_mangle)]
pub(crate) static NODE_STATS: Global<u64> = Global::new(0);
