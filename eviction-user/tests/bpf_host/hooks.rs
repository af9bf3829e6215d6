//! How programs are attached: the quicker twins where the kernel's types allow them, and all of it for a moment not at all.

use std::os::unix::fs::MetadataExt;

use aya::programs::loaded_programs;
use eviction_user::bpf::{Facts, Family, Rung};

use crate::{
    Outcome, Verdict, attach,
    load::Load,
    not_attached,
    scratch::{Cgroup, Mount},
};

/// Without them all would work as well, only slower: nothing else would notice.
pub(crate) fn a_twin_is_taken_where_its_types_are_known(facts: &Facts) -> Outcome {
    for (rung, twin) in [
        (Rung::TraceFilemap, "ev_filemap_t"),
        (Rung::TraceExt4Bytes, "ev_e4_reserve_t"),
        (Rung::TraceExt4, "ev_inode_ext4_t"),
        (Rung::TraceFreedExt4, "ev_freed_ext4_t"),
    ] {
        let _attached = match attach(facts, &[rung], false) {
            Ok(attached) => attached,
            Err(reason) => return not_attached(reason),
        };
        let is_twin = |name: Option<&str>| name == Some(twin);
        let loaded = loaded_programs()
            .filter_map(Result::ok)
            .any(|program| is_twin(program.name_as_str()));
        if !loaded {
            return Err(format!("{rung} is attached without {twin}").into());
        }
    }
    Ok(Verdict::Passed)
}

pub(crate) fn nothing_is_seen_while_suspended(facts: &Facts) -> Outcome {
    let mut attached = match attach(facts, &[Rung::TraceExt4], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let (mount, cgroup) = match (Mount::ext4(), Cgroup::new(facts, "suspended")) {
        (Ok(mount), Ok(cgroup)) => (mount, cgroup),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Verdict::Skipped(reason)),
    };
    let directory = mount.path().join("suspended");
    std::fs::create_dir_all(&directory)?;
    let _slot = attached.device_slot(Family::Inodes, mount.path().metadata()?.dev())?;
    let mut load = Load::start(&cgroup.inner())?;
    let mut make = |first: u32, count: u32| {
        load.command(&format!("create {} {first} {count}", directory.display()))
    };
    make(0, 1)?;
    attached.suspend()?;
    make(100, 20)?;
    attached.resume()?;
    make(200, 300)?;
    let booked: Vec<_> = attached.growth().map(|(_, _, grown)| grown.net).collect();
    if booked != [301] {
        return Err(format!("1 before and 300 after, booked {booked:?}").into());
    }
    Ok(Verdict::Passed)
}
