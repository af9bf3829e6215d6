//! A rung is one way to see something, and often takes several programs: all of them, or the rung is none. Pure data, from the
//! facts of the kernel; [`super::hooks`] carries it out.

use eviction_ebpf::abi::{
    Rung,
    names::{global, program},
};

use super::{disk_offsets, facts::Facts, plan::Reason};

/// One program and what it is attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) how: How,
    pub(super) program: &'static str,
    pub(super) target: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    Fentry,
    Fexit,
    Kprobe,
    Kretprobe,
    RawTracepoint,
}

const fn fentry(program: &'static str, target: &'static str) -> Part {
    Part {
        how: How::Fentry,
        program,
        target,
    }
}

const fn fexit(program: &'static str, target: &'static str) -> Part {
    Part {
        how: How::Fexit,
        program,
        target,
    }
}

const fn kprobe(program: &'static str, target: &'static str) -> Part {
    Part {
        how: How::Kprobe,
        program,
        target,
    }
}

const fn raw(program: &'static str, target: &'static str) -> Part {
    Part {
        how: How::RawTracepoint,
        program,
        target,
    }
}

/// A function that gives back is watched at both ends: its arguments are there on entry, the space after its return.
const fn kprobe_and_return(program: &'static str, target: &'static str) -> [Part; 2] {
    let at_return = Part {
        how: How::Kretprobe,
        program: program::GIVEN_KRETPROBE,
        target,
    };
    [kprobe(program, target), at_return]
}

/// What a rung is made of on this kernel.
pub(super) fn parts(rung: Rung, facts: &Facts) -> Vec<Part> {
    let has = |name| facts.function(name).symbol;
    match rung {
        Rung::FentryCharge => vec![fentry(program::CHARGE_FENTRY, "page_counter_try_charge")],
        Rung::KprobeCharge => vec![kprobe(program::CHARGE_KPROBE, "page_counter_try_charge")],
        // Opened as perf events, see `faults.rs`.
        Rung::PerfFaults => Vec::new(),
        Rung::TraceFilemap => vec![raw(program::CHARGE_FILEMAP, "mm_filemap_add_to_page_cache")],
        Rung::TracePageAlloc => vec![raw(program::CHARGE_ALLOC, "mm_page_alloc")],
        Rung::FentryInode => vec![fentry(program::INODE_FENTRY, "inode_init_owner")],
        Rung::KprobeInode => vec![kprobe(program::INODE_KPROBE, "inode_init_owner")],
        Rung::TraceExt4 => vec![raw(program::INODE_EXT4, "ext4_allocate_inode")],
        Rung::TraceXfs => vec![
            raw(program::INODE_XFS, "xfs_create"),
            raw(program::INODE_XFS, "xfs_symlink"),
        ],
        Rung::TraceBtrfs => vec![raw(program::INODE_BTRFS, "btrfs_inode_new")],
        // Ends first: what began unseen is not taken for endless.
        Rung::TraceReclaim => vec![
            raw(program::RECLAIM_END, "mm_vmscan_direct_reclaim_end"),
            raw(program::RECLAIM_END, "mm_vmscan_memcg_reclaim_end"),
            raw(program::RECLAIM_BEGIN, "mm_vmscan_direct_reclaim_begin"),
            raw(program::RECLAIM_BEGIN, "mm_vmscan_memcg_reclaim_begin"),
        ],
        Rung::TraceCgroups => vec![
            raw(program::CGROUP_GONE, "cgroup_rmdir"),
            raw(program::CGROUP_MADE, "cgroup_mkdir"),
        ],
        Rung::TraceNewTask => vec![raw(program::NEW_TASK, "task_newtask")],
        Rung::TraceOom => vec![raw(program::OOM, "mark_victim")],
        Rung::FentryFreed => vec![fentry(program::FREED_FENTRY, "clear_inode")],
        Rung::KprobeFreed => vec![kprobe(program::FREED_KPROBE, "clear_inode")],
        Rung::TraceFreedExt4 => vec![raw(program::FREED_EXT4, "ext4_free_inode")],
        Rung::TraceFreedBtrfs => vec![raw(program::FREED_BTRFS, "btrfs_inode_evict")],
        Rung::FentryExt4Bytes => vec![
            fentry(program::EXT4_CLAIM_FENTRY, "ext4_claim_free_clusters"),
            fentry(program::EXT4_NEW_FENTRY, "ext4_mb_new_blocks"),
            fexit(program::EXT4_RELEASE_FEXIT, "ext4_da_release_space"),
            fexit(program::EXT4_FREE_FEXIT, "ext4_free_blocks"),
            fexit(program::EXT4_UPDATE_FEXIT, "ext4_da_update_reserve_space"),
        ],
        Rung::KprobeExt4Bytes => [
            vec![
                kprobe(program::EXT4_CLAIM_KPROBE, "ext4_claim_free_clusters"),
                kprobe(program::EXT4_NEW_KPROBE, "ext4_mb_new_blocks"),
            ],
            kprobe_and_return(program::EXT4_RELEASE_KPROBE, "ext4_da_release_space").into(),
            kprobe_and_return(program::EXT4_FREE_KPROBE, "ext4_free_blocks").into(),
            kprobe_and_return(program::EXT4_UPDATE_KPROBE, "ext4_da_update_reserve_space").into(),
        ]
        .concat(),
        Rung::TraceExt4Bytes => vec![
            raw(program::EXT4_RESERVE, "ext4_da_reserve_space"),
            raw(program::EXT4_ALLOCATE, "ext4_allocate_blocks"),
            raw(program::EXT4_RELEASE, "ext4_da_release_space"),
            raw(program::EXT4_FREE, "ext4_free_blocks"),
        ],
        Rung::KprobeXfsBytes => {
            let mut parts = match XFS_MOD.into_iter().find(|name| has(name)) {
                Some(name) => kprobe_and_return(program::XFS_MOD_KPROBE, name).to_vec(),
                None => [
                    vec![kprobe(program::XFS_DEC_KPROBE, "xfs_dec_freecounter")],
                    kprobe_and_return(program::XFS_ADD_KPROBE, "xfs_add_freecounter").into(),
                ]
                .concat(),
            };
            parts.extend(learning(facts, global::XFS_SUPER));
            parts
        }
        Rung::TraceXfsBytes => vec![
            raw(program::XFS_COMMIT, "xfs_trans_commit"),
            raw(program::XFS_ALLOC, "xfs_iomap_alloc"),
        ],
        Rung::KprobeBtrfsBytes => {
            let release = "btrfs_free_reserved_data_space_noquota";
            let mut parts = vec![
                kprobe(program::BTRFS_RESERVE_KPROBE, "btrfs_reserve_data_bytes"),
                raw(program::BTRFS_EXTENT, "btrfs_reserved_extent_alloc"),
                raw(program::BTRFS_CHUNK, "btrfs_chunk_alloc"),
            ];
            parts.extend(kprobe_and_return(program::BTRFS_RELEASE_KPROBE, release));
            parts.extend(learning(facts, global::BTRFS_SUPER));
            parts
        }
        Rung::TraceBtrfsBytes => vec![
            raw(program::BTRFS_EXTENT, "btrfs_reserved_extent_alloc"),
            raw(program::BTRFS_CHUNK, "btrfs_chunk_alloc"),
        ],
        Rung::FentryTmpfsBytes => match SHMEM_PAGE.into_iter().find(|name| has(name)) {
            Some(name) => vec![fentry(program::TMPFS_PAGE_FENTRY, name)],
            None => vec![
                fentry(program::TMPFS_TAKE_FENTRY, "shmem_inode_acct_blocks"),
                fexit(program::TMPFS_GIVE_FEXIT, "shmem_inode_unacct_blocks"),
            ],
        },
        Rung::FentryWritten => vec![
            raw(program::DIRTIED, dirtied(facts)),
            fentry(program::DIRECT_FENTRY, "generic_write_checks"),
            fentry(program::ALLOCATE_FENTRY, "vfs_fallocate"),
            fentry(program::NAMED_FENTRY, "inode_init_owner"),
        ],
        Rung::KprobeWritten => vec![
            raw(program::DIRTIED, dirtied(facts)),
            kprobe(program::DIRECT_KPROBE, "generic_write_checks"),
            kprobe(program::ALLOCATE_KPROBE, "vfs_fallocate"),
            kprobe(program::NAMED_KPROBE, "inode_init_owner"),
        ],
        Rung::TraceWritten => vec![raw(program::DIRTIED, dirtied(facts))],
        Rung::KprobeTmpfsBytes => match SHMEM_PAGE.into_iter().find(|name| has(name)) {
            Some(name) => vec![kprobe(program::TMPFS_PAGE_KPROBE, name)],
            None => [
                vec![kprobe(
                    program::TMPFS_TAKE_KPROBE,
                    "shmem_inode_acct_blocks",
                )],
                kprobe_and_return(program::TMPFS_GIVE_KPROBE, "shmem_inode_unacct_blocks").into(),
            ]
            .concat(),
        },
    }
}

/// Up to 6.0, up to 6.7; later `xfs_dec_freecounter` and `xfs_add_freecounter`.
const XFS_MOD: [&str; 2] = ["xfs_mod_fdblocks", "xfs_mod_freecounter"];
/// Up to 5.15, up to 6.5; later `shmem_inode_acct_blocks`.
const SHMEM_PAGE: [&str; 2] = ["shmem_alloc_and_acct_page", "shmem_alloc_and_acct_folio"];

/// Its name before there were folios.
fn dirtied(facts: &Facts) -> &'static str {
    const NAMES: [&str; 2] = ["writeback_dirty_folio", "writeback_dirty_page"];
    let known = NAMES.into_iter().find(|name| facts.has_tracepoint(name));
    known.unwrap_or(NAMES[0])
}

/// The number of blocks is the second argument of the oldest of the functions, the third of all others.
pub(super) fn xfs_delta_argument(facts: &Facts) -> u32 {
    if facts.function(XFS_MOD[0]).symbol {
        1
    } else {
        2
    }
}

/// What finds super blocks where BTF does not tell how to get to them.
fn learning(facts: &Facts, offset: &str) -> Option<Part> {
    let known = facts.offsets.disk.contains_key(offset);
    (!known).then(|| kprobe(program::STATFS_KPROBE, "security_sb_statfs"))
}

/// Members without whose place a rung could not tell what it sees.
fn members(rung: Rung) -> &'static [&'static str] {
    match rung {
        Rung::FentryExt4Bytes | Rung::KprobeExt4Bytes => &[
            global::SB_BLOCK_BITS,
            global::EXT4_SUPER,
            global::EXT4_AR_INODE,
            global::EXT4_AR_LEN,
            global::EXT4_AR_FLAGS,
        ],
        Rung::TraceExt4Bytes => &[
            global::SB_BLOCK_BITS,
            global::EXT4_AR_INODE,
            global::EXT4_AR_LEN,
            global::EXT4_AR_FLAGS,
            global::EXT4_RESERVE_ARGS,
        ],
        Rung::KprobeXfsBytes | Rung::KprobeBtrfsBytes => {
            &[global::SB_BLOCK_BITS, global::SB_PRIVATE, global::DENTRY_SB]
        }
        Rung::TraceXfsBytes => &[
            global::SB_BLOCK_BITS,
            global::XFS_SUPER,
            global::XFS_VNODE,
            global::XFS_TRANS_MOUNT,
            global::XFS_TRANS_USED,
            global::XFS_IREC_COUNT,
        ],
        Rung::TraceBtrfsBytes => &[global::BTRFS_SUPER],
        Rung::FentryTmpfsBytes | Rung::KprobeTmpfsBytes => &[global::SB_BLOCK_BITS],
        Rung::FentryWritten | Rung::KprobeWritten => &[
            global::SB_BLOCK_BITS,
            global::MAPPING_HOST,
            global::KIOCB_FILE,
            global::KIOCB_FLAGS,
            global::FILE_INODE,
            global::ITER_COUNT,
        ],
        Rung::TraceWritten => &[global::MAPPING_HOST],
        Rung::FentryFreed | Rung::KprobeFreed | Rung::TraceFreedBtrfs => &[global::INODE_NLINK],
        _ => &[],
    }
}

/// Why a rung cannot hold on this kernel, if that is known before it is tried.
pub(super) fn obstacle(rung: Rung, facts: &Facts) -> Option<Reason> {
    let disk = &facts.offsets.disk;
    // A tracepoint at the end of something comes with the one at its beginning.
    let is_end = |part: &Part| part.how == How::RawTracepoint && part.target.ends_with("_end");
    let mut parts = parts(rung, facts).into_iter();
    let part = parts.find_map(|part| missing(&part, facts).filter(|_| !is_end(&part)));
    part.or_else(|| {
        let known = |member: &&&str| !disk.contains_key(**member);
        let member = members(rung).iter().find(known)?;
        Some(Reason::LayoutUnknown {
            member: disk_offsets::member(member),
        })
    })
}

fn missing(part: &Part, facts: &Facts) -> Option<Reason> {
    let function = part.target;
    match part.how {
        How::Fentry | How::Fexit => {
            if let Some(detail) = facts.btf_error.clone() {
                return Some(Reason::NoBtf { detail });
            }
            if facts.copies.contains_key(function) {
                return Some(Reason::Copied { function });
            }
            (!facts.function(function).btf).then_some(Reason::NoFunction { function })
        }
        How::Kprobe | How::Kretprobe => {
            if !facts.kprobes {
                return Some(Reason::NoKprobes);
            }
            facts
                .symbols_of(function)
                .is_empty()
                .then_some(Reason::NoFunction { function })
        }
        How::RawTracepoint => {
            let tracepoint = part.target;
            (!facts.has_tracepoint(tracepoint)).then_some(Reason::NoTracepoint { tracepoint })
        }
    }
}
