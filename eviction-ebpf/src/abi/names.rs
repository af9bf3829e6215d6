//! Names by which user space finds things in the object.

/// Its name is its value: loading an object of another ABI fails with this name.
pub const ABI: &str = "EVICTION_ABI_6";

pub mod map {
    pub const SLOTS: &str = "SLOTS";
    pub const CLAIMS: &str = "CLAIMS";
    pub const FAULT_BATCH: &str = "FAULT_BATCH";
    pub const MEMORY_EVENTS: &str = "MEMORY_EVENTS";
    pub const FS_EVENTS: &str = "FS_EVENTS";
    pub const MEMORY_DROPS: &str = "MEMORY_DROPS";
    pub const FS_DROPS: &str = "FS_DROPS";
    pub const GROWTH: &str = "GROWTH";
    pub const GROWTH_RUNS: &str = "GROWTH_RUNS";
    pub const CGROUP_EVENTS: &str = "CGROUP_EVENTS";
    pub const RECLAIM_STALLS: &str = "RECLAIM_STALLS";
    pub const LOST: &str = "LOST";
    pub const SUPERS: &str = "SUPERS";
    pub const PENDING: &str = "PENDING";
    /// aya-log's ring.
    pub const LOGS: &str = "AYA_LOGS";
}

/// At most 15 characters, so that `bpftool prog` shows them whole.
pub mod program {
    pub const CHARGE_FENTRY: &str = "ev_charge_fe";
    pub const CHARGE_KPROBE: &str = "ev_charge_kp";
    pub const CHARGE_FAULTS: &str = "ev_faults";
    pub const CHARGE_FILEMAP: &str = "ev_filemap";
    pub const CHARGE_FILEMAP_TYPED: &str = "ev_filemap_t";
    pub const CHARGE_ALLOC: &str = "ev_page_alloc";
    pub const INODE_FENTRY: &str = "ev_inode_fe";
    pub const INODE_KPROBE: &str = "ev_inode_kp";
    pub const INODE_EXT4: &str = "ev_inode_ext4";
    pub const INODE_EXT4_TYPED: &str = "ev_inode_ext4_t";
    pub const INODE_XFS: &str = "ev_inode_xfs";
    pub const INODE_BTRFS: &str = "ev_inode_btrfs";
    pub const NEW_TASK: &str = "ev_new_task";
    pub const OOM: &str = "ev_oom_victim";
    pub const RECLAIM_BEGIN: &str = "ev_reclaim_beg";
    pub const RECLAIM_END: &str = "ev_reclaim_end";
    pub const CGROUP_MADE: &str = "ev_cgroup_made";
    pub const CGROUP_GONE: &str = "ev_cgroup_gone";
    pub const FREED_FENTRY: &str = "ev_freed_fe";
    pub const FREED_KPROBE: &str = "ev_freed_kp";
    pub const FREED_EXT4: &str = "ev_freed_ext4";
    pub const FREED_EXT4_TYPED: &str = "ev_freed_ext4_t";
    pub const FREED_BTRFS: &str = "ev_freed_btrfs";
    pub const EXT4_CLAIM_FENTRY: &str = "ev_e4_claim_fe";
    pub const EXT4_CLAIM_KPROBE: &str = "ev_e4_claim_kp";
    pub const EXT4_NEW_FENTRY: &str = "ev_e4_new_fe";
    pub const EXT4_NEW_KPROBE: &str = "ev_e4_new_kp";
    pub const EXT4_RELEASE_FEXIT: &str = "ev_e4_rel_fx";
    pub const EXT4_RELEASE_KPROBE: &str = "ev_e4_rel_kp";
    pub const EXT4_FREE_FEXIT: &str = "ev_e4_free_fx";
    pub const EXT4_FREE_KPROBE: &str = "ev_e4_free_kp";
    pub const EXT4_UPDATE_FEXIT: &str = "ev_e4_upd_fx";
    pub const EXT4_UPDATE_KPROBE: &str = "ev_e4_upd_kp";
    pub const EXT4_RESERVE: &str = "ev_e4_reserve";
    pub const EXT4_RESERVE_TYPED: &str = "ev_e4_reserve_t";
    pub const EXT4_ALLOCATE: &str = "ev_e4_allocate";
    pub const EXT4_RELEASE: &str = "ev_e4_release";
    pub const EXT4_FREE: &str = "ev_e4_free";
    pub const XFS_MOD_KPROBE: &str = "ev_xfs_mod_kp";
    pub const XFS_DEC_KPROBE: &str = "ev_xfs_dec_kp";
    pub const XFS_ADD_KPROBE: &str = "ev_xfs_add_kp";
    pub const XFS_COMMIT: &str = "ev_xfs_commit";
    pub const XFS_ALLOC: &str = "ev_xfs_alloc";
    pub const BTRFS_RESERVE_KPROBE: &str = "ev_bt_resrv_kp";
    pub const BTRFS_RELEASE_KPROBE: &str = "ev_bt_rel_kp";
    pub const BTRFS_EXTENT: &str = "ev_bt_extent";
    pub const BTRFS_CHUNK: &str = "ev_bt_chunk";
    pub const TMPFS_PAGE_FENTRY: &str = "ev_tm_page_fe";
    pub const TMPFS_PAGE_KPROBE: &str = "ev_tm_page_kp";
    pub const TMPFS_TAKE_FENTRY: &str = "ev_tm_take_fe";
    pub const TMPFS_TAKE_KPROBE: &str = "ev_tm_take_kp";
    pub const TMPFS_GIVE_FEXIT: &str = "ev_tm_give_fx";
    pub const TMPFS_GIVE_KPROBE: &str = "ev_tm_give_kp";
    pub const DIRTIED: &str = "ev_dirtied";
    pub const DIRECT_FENTRY: &str = "ev_direct_fe";
    pub const DIRECT_KPROBE: &str = "ev_direct_kp";
    pub const ALLOCATE_FENTRY: &str = "ev_fallocate_fe";
    pub const ALLOCATE_KPROBE: &str = "ev_fallocate_kp";
    pub const NAMED_FENTRY: &str = "ev_named_fe";
    pub const NAMED_KPROBE: &str = "ev_named_kp";
    /// At the return of any function that gives back.
    pub const GIVEN_KRETPROBE: &str = "ev_given_kr";
    /// Learns the super blocks of file systems whose types are not known.
    pub const STATFS_KPROBE: &str = "ev_statfs_kp";
}

/// Facts of the running kernel, set at load time. Offsets are in bytes; `abi::UNKNOWN` where BTF cannot tell.
pub mod global {
    /// `task_struct.cgroups`
    pub const TASK_CGROUPS: &str = "TASK_CGROUPS";
    /// `css_set.subsys[memory_cgrp_id]`
    pub const CSS_SET_MEMORY: &str = "CSS_SET_MEMORY";
    /// 1 if the kernel hands over the current task as a pointer whose type the verifier knows.
    pub const TASK_TYPED: &str = "TASK_TYPED";
    /// `cgroup_subsys_state.cgroup`
    pub const CSS_CGROUP: &str = "CSS_CGROUP";
    /// `cgroup_subsys_state.parent`
    pub const CSS_PARENT: &str = "CSS_PARENT";
    /// `cgroup.kn`
    pub const CGROUP_KN: &str = "CGROUP_KN";
    /// `cgroup.subsys[memory_cgrp_id]`
    pub const CGROUP_MEMORY: &str = "CGROUP_MEMORY";
    /// `kernfs_node.id`
    pub const KN_ID: &str = "KN_ID";
    /// `mem_cgroup.memory` minus `mem_cgroup.css`
    pub const COUNTER_FROM_CSS: &str = "COUNTER_FROM_CSS";
    /// `page_counter.usage`
    pub const COUNTER_USAGE: &str = "COUNTER_USAGE";
    /// `cgroup.root`
    pub const CGROUP_ROOT: &str = "CGROUP_ROOT";
    /// `cgroup_root.hierarchy_id`
    pub const ROOT_HIERARCHY: &str = "ROOT_HIERARCHY";
    /// The id of the memory controller's hierarchy, 0 for cgroup v2.
    pub const MEMORY_HIERARCHY: &str = "MEMORY_HIERARCHY";
    /// `kernfs_node.parent`, `__parent` from 6.15 on
    pub const KN_PARENT: &str = "KN_PARENT";
    /// `kernfs_node.name`
    pub const KN_NAME: &str = "KN_NAME";
    /// 1 if `mark_victim` hands over the task, 0 if its pid.
    pub const VICTIM_IS_TASK: &str = "VICTIM_IS_TASK";
    /// `task_struct.tgid`
    pub const TASK_TGID: &str = "TASK_TGID";
    /// 1 if the memory controller is on a cgroup v1 hierarchy.
    pub const MEMORY_ON_V1: &str = "MEMORY_ON_V1";
    /// `inode.i_sb`
    pub const INODE_SB: &str = "INODE_SB";
    /// `super_block.s_dev`
    pub const SB_DEV: &str = "SB_DEV";
    /// Which argument of `inode_init_owner` the inode is.
    pub const INODE_ARG: &str = "INODE_ARG";
    /// `inode.i_nlink`
    pub const INODE_NLINK: &str = "INODE_NLINK";
    /// `super_block.s_blocksize_bits`
    pub const SB_BLOCK_BITS: &str = "SB_BLOCK_BITS";
    /// `super_block.s_fs_info`
    pub const SB_PRIVATE: &str = "SB_PRIVATE";
    /// `dentry.d_sb`
    pub const DENTRY_SB: &str = "DENTRY_SB";
    /// `ext4_sb_info.s_sb`
    pub const EXT4_SUPER: &str = "EXT4_SUPER";
    /// `ext4_sb_info.s_cluster_bits`
    pub const EXT4_CLUSTER_BITS: &str = "EXT4_CLUSTER_BITS";
    /// `ext4_allocation_request.inode`, `.len`, `.flags`
    pub const EXT4_AR_INODE: &str = "EXT4_AR_INODE";
    pub const EXT4_AR_LEN: &str = "EXT4_AR_LEN";
    pub const EXT4_AR_FLAGS: &str = "EXT4_AR_FLAGS";
    /// Arguments of the tracepoint `ext4_da_reserve_space`: with the second one, blocks; without, one block.
    pub const EXT4_RESERVE_ARGS: &str = "EXT4_RESERVE_ARGS";
    /// `xfs_mount.m_super`
    pub const XFS_SUPER: &str = "XFS_SUPER";
    /// Which argument of the function that changes the free blocks is the number of them.
    pub const XFS_DELTA_ARG: &str = "XFS_DELTA_ARG";
    /// `xfs_trans.t_mountp`, `.t_blk_res_used`
    pub const XFS_TRANS_MOUNT: &str = "XFS_TRANS_MOUNT";
    pub const XFS_TRANS_USED: &str = "XFS_TRANS_USED";
    /// `xfs_bmbt_irec.br_blockcount`
    pub const XFS_IREC_COUNT: &str = "XFS_IREC_COUNT";
    /// `btrfs_fs_info.sb`
    pub const BTRFS_SUPER: &str = "BTRFS_SUPER";
    /// `btrfs_space_info.fs_info`
    pub const BTRFS_SPACE_FS: &str = "BTRFS_SPACE_FS";
    /// `btrfs_inode.vfs_inode`
    pub const BTRFS_VNODE: &str = "BTRFS_VNODE";
    /// `address_space.host`
    pub const MAPPING_HOST: &str = "MAPPING_HOST";
    /// `kiocb.ki_filp`, `.ki_flags`
    pub const KIOCB_FILE: &str = "KIOCB_FILE";
    pub const KIOCB_FLAGS: &str = "KIOCB_FLAGS";
    /// `file.f_inode`
    pub const FILE_INODE: &str = "FILE_INODE";
    /// `iov_iter.count`
    pub const ITER_COUNT: &str = "ITER_COUNT";
    /// `xfs_inode.i_vnode`
    pub const XFS_VNODE: &str = "XFS_VNODE";
    /// `folio.flags`, or `page.flags` where there are no folios.
    pub const FOLIO_FLAGS: &str = "FOLIO_FLAGS";
    /// Bit number of `PG_head`.
    pub const HEAD_BIT: &str = "HEAD_BIT";
    /// Offset of the field that `FOLIO_SIZE_KIND` (`abi::FolioSize`) says how to read.
    pub const FOLIO_SIZE: &str = "FOLIO_SIZE";
    pub const FOLIO_SIZE_KIND: &str = "FOLIO_SIZE_KIND";
    /// Pages that one fault may bring in: 512 unless transparent huge pages are off.
    pub const PAGES_PER_FAULT: &str = "PAGES_PER_FAULT";
    /// Address of `vm_node_stat`, which counts all NUMA nodes together.
    pub const NODE_STATS: &str = "NODE_STATS";
    /// `mem_cgroup.nodeinfo[0]` minus `mem_cgroup.css`; set only where there is one NUMA node.
    pub const CSS_NODE_INFO: &str = "CSS_NODE_INFO";
    /// `mem_cgroup_per_node.lruvec.pgdat`
    pub const NODE_INFO_PGDAT: &str = "NODE_INFO_PGDAT";
    /// `pglist_data.vm_stat`
    pub const PGDAT_STATS: &str = "PGDAT_STATS";
    /// Offsets of the items `NR_ANON_MAPPED`, `NR_FILE_PAGES`, `NR_INACTIVE_FILE` among the node's counters.
    pub const STAT_ANON: &str = "STAT_ANON";
    pub const STAT_FILE: &str = "STAT_FILE";
    pub const STAT_INACTIVE_FILE: &str = "STAT_INACTIVE_FILE";
    /// aya-log's level; 0 silences it, and the verifier then removes the logging code.
    pub const LOG_LEVEL: &str = "AYA_LOG_LEVEL";
}
