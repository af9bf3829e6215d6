//! Inode hooks.

use std::{os::unix::fs::MetadataExt, time::Duration};

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

use eviction_user::bpf::{Armed, Credit, Facts, Family, Kind, Rung};

use crate::{
    Outcome, Verdict, attach, collect,
    load::Load,
    not_attached, runtime,
    scratch::{Cgroup, Mount},
};

const COMES: Duration = Duration::from_secs(20);
const STAYS_AWAY: Duration = Duration::from_millis(300);

pub(crate) fn one_event_per_arming(facts: &Facts, rung: Rung) -> Outcome {
    let mut attached = match attach(facts, &[rung], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let ext4 = Mount::ext4();
    // `inode_init_owner` runs for every file system; where ext4 cannot be had (a bare guest), tmpfs will do.
    let mount = if rung == Rung::TraceExt4 {
        ext4
    } else {
        ext4.or_else(|_| Mount::tmpfs())
    };
    let (mount, cgroup) = match (mount, Cgroup::new(facts, "inodes")) {
        (Ok(mount), Ok(cgroup)) => (mount, cgroup),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Verdict::Skipped(reason)),
    };
    // A disk that several scenarios share has files already. Our own directory is made before anything counts.
    let directory = mount.path().join(rung.name().replace('/', "-"));
    std::fs::create_dir_all(&directory)?;
    let directory = directory.display().to_string();
    let device = mount.path().metadata()?.dev();
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut events = attached.take_events()?;
        let mut slot = attached.device_slot(Family::Inodes, device)?;
        let mut load = Load::start(&cgroup.inner())?;
        for round in 0..2_u32 {
            let mark = slot.begin();
            if slot.arm(
                mark,
                Credit {
                    units: 100,
                    level: None,
                },
            ) != Armed::Armed
            {
                return Err("crossed before anything was created".into());
            }
            // A file elsewhere is not our device's business.
            load.command(&format!("create /tmp eviction-{} 0", std::process::id()))
                .ok();
            load.command(&format!("create {directory} {} 90", round * 1000))?;
            let early = collect(&mut events, STAYS_AWAY, 1).await?;
            if !early.is_empty() {
                return Err(format!("90 of 100 inodes: {early:?}").into());
            }
            load.command(&format!("create {directory} {} 30", round * 1000 + 500))?;
            let found = collect(&mut events, COMES, 1).await?;
            let [event] = found.as_slice() else {
                return Err(format!("no event after {} inodes", slot.spent_since(mark)).into());
            };
            let id = Cgroup::id(&cgroup.inner())?;
            if (event.cgroup_id, event.kind, event.rung, event.slot)
                != (id, Kind::Inodes as u8, rung as u8, slot.index())
            {
                return Err(format!("expected cgroup {id}, rung {rung}: {event:?}").into());
            }
            let late = u64::from(facts.cpus);
            if !(100 - late..=100).contains(&event.amount) {
                return Err(format!("reported after {} inodes of 100", event.amount).into());
            }
            let more = collect(&mut events, STAYS_AWAY, 1).await?;
            if !more.is_empty() {
                return Err(format!("one arming, a second event: {more:?}").into());
            }
        }
        let used: Vec<_> = attached
            .growth()
            .map(|(kind, consumer, grown)| (kind, consumer.device, consumer.cgroup, grown.net))
            .collect();
        let id = Cgroup::id(&cgroup.inner())?;
        if used != [(Kind::Inodes, device, id, 240)] {
            return Err(format!("240 inodes by one cgroup, booked {used:?}").into());
        }
        drop(load);
        Ok(Verdict::Passed)
    })
}

/// Each CPU keeps what it has counted last apart from the counters: whoever takes turns on one must find all of it in its own.
pub(crate) fn each_cgroup_has_its_own_whoever_takes_turns(facts: &Facts) -> Outcome {
    const TURNS: u64 = 20;
    let mut attached = match attach(facts, &[Rung::TraceExt4], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let mount = match Mount::ext4() {
        Ok(mount) => mount,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let mut groups = Vec::new();
    for name in ["turns-a", "turns-b"] {
        match Cgroup::new(facts, name) {
            Ok(group) => groups.push(group),
            Err(reason) => return Ok(Verdict::Skipped(reason)),
        }
    }
    let directory = mount.path().join("turns");
    std::fs::create_dir_all(&directory)?;
    let device = mount.path().metadata()?.dev();
    let _slot = attached.device_slot(Family::Inodes, device)?;
    let everywhere = sched_getaffinity(Pid::from_raw(0))?;
    let mut one = CpuSet::new();
    one.set(0)?;
    sched_setaffinity(Pid::from_raw(0), &one)?;
    let loads: Result<Vec<_>, _> = groups
        .iter()
        .map(|group| Load::start(&group.inner()))
        .collect();
    sched_setaffinity(Pid::from_raw(0), &everywhere)?;
    let mut loads = loads?;
    // Those of the second are more than a CPU keeps back.
    let each = [7, 70];
    for turn in 0..TURNS {
        for (number, load) in loads.iter_mut().enumerate() {
            let first = number as u64 * 1_000_000 + turn * 1000;
            load.command(&format!(
                "create {} {first} {}",
                directory.display(),
                each[number]
            ))?;
        }
    }
    let mut found: Vec<_> = attached
        .growth()
        .map(|(_, consumer, grown)| (consumer.cgroup, grown.net))
        .collect();
    let mut expected = Vec::new();
    for (group, each) in groups.iter().zip(each) {
        expected.push((Cgroup::id(&group.inner())?, each * TURNS.cast_signed()));
    }
    found.sort_unstable();
    expected.sort_unstable();
    if found != expected {
        return Err(format!("made {expected:?}, booked {found:?}").into());
    }
    Ok(Verdict::Passed)
}
