//! What is told beside the events: OOM victims, stalls in reclaim, cgroups that come and go.

use std::{collections::BTreeSet, fs, time::Duration};

use eviction_user::{
    bpf::{Facts, Hierarchy, Kind, Rung},
    sys::cgroup::{Change, ChangeFeed},
};

use crate::{
    Outcome, Verdict, attach, collect,
    load::Load,
    not_attached, runtime,
    scratch::{Cgroup, Mount},
};

const COMES: Duration = Duration::from_secs(20);
const LIMIT: u64 = 32 << 20;

pub(crate) fn an_oom_victim_is_told_with_its_cgroup(facts: &Facts) -> Outcome {
    let mut attached = match attach(facts, &[Rung::TraceOom], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let cgroup = match Cgroup::new(facts, "oom") {
        Ok(cgroup) => cgroup,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    cgroup.limit(LIMIT)?;
    let id = Cgroup::id(&cgroup.inner())?;
    runtime()?.block_on(async {
        let mut events = attached.take_events()?;
        let mut load = Load::start(&cgroup.inner())?;
        if load.command("touch 64").is_ok() {
            return Err("twice the limit was touched, and nobody was killed".into());
        }
        // Another OOM kill on this machine is none of ours.
        loop {
            let found = collect(&mut events, COMES, 1).await?;
            let [event] = found.as_slice() else {
                return Err("no event of the OOM kill".into());
            };
            if (event.kind, event.tgid) != (Kind::OomKill as u8, load.id()) {
                continue;
            }
            if event.cgroup_id != id || event.rung != Rung::TraceOom as u8 {
                return Err(format!("expected cgroup {id}: {event:?}").into());
            }
            return Ok(Verdict::Passed);
        }
    })
}

pub(crate) fn stalls_are_summed_for_the_cgroup_that_waits(facts: &Facts) -> Outcome {
    let attached = match attach(facts, &[Rung::TraceReclaim], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    // Reclaim needs pages that can be had back: those of a file on a disk.
    let (mount, cgroup) = match (Mount::ext4(), Cgroup::new(facts, "reclaim")) {
        (Ok(mount), Ok(cgroup)) => (mount, cgroup),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Verdict::Skipped(reason)),
    };
    cgroup.limit(LIMIT / 2)?;
    let id = Cgroup::id(&cgroup.inner())?;
    let of_ours = || attached.stalls().find(|(cgroup, _)| *cgroup == id);
    let mut load = Load::start(&cgroup.inner())?;
    if let Some(stall) = of_ours() {
        return Err(format!("before anything was written: {stall:?}").into());
    }
    let file = mount.path().join("reclaimed");
    load.command(&format!("write {} 24", file.display()))?;
    let Some((_, stall)) = of_ours() else {
        return Err("24 MiB of a file under a limit of 16 MiB, and no stall".into());
    };
    fs::remove_file(file)?;
    if stall.times == 0 || stall.total_ns == 0 {
        return Err(format!("{stall:?}").into());
    }
    Ok(Verdict::Passed)
}

/// Also those that nobody walks past in time, and none of another hierarchy, whose ids mean other cgroups.
pub(crate) fn cgroups_that_come_and_go_are_told(facts: &Facts) -> Outcome {
    let mut attached = match attach(facts, &[Rung::TraceCgroups], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let mut feed = attached.take_cgroups().ok_or("no feed")?;
    let cgroup = match Cgroup::new(facts, "changes") {
        Ok(cgroup) => cgroup,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let (outer, inner) = (Cgroup::id(&cgroup.path)?, Cgroup::id(&cgroup.inner())?);
    let long = cgroup.path.join("x".repeat(200));
    fs::create_dir(&long)?;
    let long_id = Cgroup::id(&long)?;
    fs::remove_dir(&long)?;
    let foreign = std::path::Path::new("/sys/fs/cgroup/freezer")
        .join(cgroup.path.file_name().ok_or("the cgroup has no name")?);
    let has_foreign = facts.memory_hierarchy == Hierarchy::V1 && fs::create_dir(&foreign).is_ok();
    if has_foreign {
        fs::remove_dir(&foreign)?;
    }
    drop(cgroup);
    let told: Vec<Change> = std::iter::from_fn(|| feed.next()).collect();
    let made = |id, parent, name: Option<&str>| Change::Made {
        id,
        parent,
        name: name.map(str::to_owned),
    };
    let expected = [
        made(inner, outer, Some("inner")),
        made(long_id, outer, None),
        Change::Removed { id: long_id },
        Change::Removed { id: inner },
        Change::Removed { id: outer },
    ];
    // Others may make cgroups at the same time.
    let ours: BTreeSet<u64> = [outer, inner, long_id].into();
    let mut of_ours = told.iter().filter(|change| match change {
        Change::Made { id, .. } | Change::Removed { id } => ours.contains(id),
    });
    let Some(Change::Made {
        name: Some(name), ..
    }) = of_ours.next()
    else {
        return Err(format!("the first one was not told: {told:?}").into());
    };
    if !name.ends_with("-changes") || !of_ours.eq(&expected) {
        return Err(format!("expected {expected:?}, told {told:?}").into());
    }
    let named_twice = told
        .iter()
        .filter(|change| matches!(change, Change::Made { name: Some(other), .. } if other == name));
    if named_twice.count() != 1 {
        return Err(format!("the freezer's cgroup of that name was told too: {told:?}").into());
    }
    Ok(Verdict::Passed)
}
