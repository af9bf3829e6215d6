//! Full rings: what is lost is counted, and nothing stays unknown.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt, path::Path, time::Duration};

use eviction_user::{
    bpf::{AttachOptions, Attached, Credit, Facts, Family, KernelEvents, Rung, Wanted, plan},
    model::Signal,
    ports::PressureSource,
    sys::cgroup::{CgroupNames, ChangeFeed, Hierarchy},
};
use libtest_mimic::Failed;

use crate::{
    Outcome, Verdict, attach, collect,
    load::Load,
    not_attached, runtime,
    scratch::{self, Cgroup, Mount},
};

/// More than a ring of 64 KiB holds: an event takes 72 bytes there.
const ARMINGS: usize = 1000;
const HELD: usize = 64 * 1024 / 72;
/// More than the ring of cgroups holds: a change takes 160 bytes there.
const CGROUPS: usize = 260;
/// Counters that there is room for in the test; a table that keeps the latest ones needs some for each CPU.
const ROOM: u32 = 64;
const COMES: Duration = Duration::from_secs(20);

/// A reader that does not read: the ring fills up, the rest is counted, and an arming whose event was lost reports again as
/// soon as there is room.
pub(crate) fn a_full_ring_loses_no_crossing(facts: &Facts) -> Outcome {
    let mut attached = match attach(facts, &[Rung::TraceNewTask], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let cgroup = match Cgroup::new(facts, "full") {
        Ok(cgroup) => cgroup,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    runtime()?.block_on(async {
        let mut events = attached.take_events()?;
        let mut slot = attached.forks_slot()?;
        let mut load = Load::start(&cgroup.inner())?;
        let mut arm_and_cross = |threads: &str| {
            let mark = slot.begin();
            let _ = slot.arm(
                mark,
                Credit {
                    units: 1,
                    level: None,
                },
            );
            load.command(threads)
        };
        for _ in 0..ARMINGS {
            arm_and_cross("threads 3")?;
        }
        let drops = attached.drops()?;
        if drops.files == 0 || drops.memory != 0 {
            return Err(format!("{ARMINGS} armings unread, lost: {drops:?}").into());
        }
        let held = std::iter::from_fn(|| events.try_next()).collect::<Result<Vec<_>, _>>()?;
        if held.len() < HELD - 1 {
            return Err(format!("{} events came out of a full ring", held.len()).into());
        }
        let armings: BTreeSet<u64> = held.iter().map(|event| event.limit_word).collect();
        if armings.len() != held.len() {
            return Err("an arming was reported twice".into());
        }
        // The last arming's event was lost, and nobody has armed since.
        load.command("threads 3")?;
        let late = collect(&mut events, COMES, 1).await?;
        let [event] = late.as_slice() else {
            return Err("the crossing that was lost is not reported again".into());
        };
        if armings.contains(&event.limit_word) {
            return Err(format!("an old arming again: {event:?}").into());
        }
        Ok(Verdict::Passed)
    })
}

/// More cgroups than the table of growth holds: the oldest counters go, and that they did is known.
pub(crate) fn counters_that_had_to_make_room_are_counted(facts: &Facts) -> Outcome {
    let options = AttachOptions {
        growth_room: Some(ROOM),
        ..AttachOptions::default()
    };
    let attached = Attached::attach(facts, &plan(facts), &options);
    if !attached.report().of(Family::Inodes).is_attached() {
        return Ok(Verdict::Skipped("no inode hook can be attached".into()));
    }
    let mount = Mount::ext4().or_else(|_| Mount::tmpfs());
    let (mount, cgroup) = match (mount, Cgroup::new(facts, "room")) {
        (Ok(mount), Ok(cgroup)) => (mount, cgroup),
        (Err(reason), _) | (_, Err(reason)) => return Ok(Verdict::Skipped(reason)),
    };
    let wanted = Wanted {
        devices: vec![(Signal::NodeFsInodesFree, mount.path().metadata()?.dev())],
        ..Wanted::default()
    };
    runtime()?.block_on(async {
        let mut events = KernelEvents::open(attached, &wanted, None)?;
        let mut load = Load::start(&cgroup.inner())?;
        let directory = mount.path().display();
        let mut make_in = |path: &Path, number: u32| -> Result<(), Failed> {
            fs::write(path.join("cgroup.procs"), load.id().to_string())?;
            load.command(&format!("create {directory} {number} 1"))
        };
        make_in(&cgroup.inner(), 0)?;
        let known = events.growth().inodes.len();
        if known == 0 || events.forgotten_counts() > 0 {
            return Err(format!("{known} counters after one file").into());
        }
        let path = |number: u32| cgroup.path.join(format!("{number}"));
        for number in 1..=4 * ROOM {
            fs::create_dir(path(number))?;
            make_in(&path(number), number)?;
        }
        drop(load);
        let gone = |number| scratch::remove(&path(number));
        let left: Vec<u32> = (1..=4 * ROOM).filter(|number| !gone(*number)).collect();
        let known = events.growth().inodes.len() as u64;
        let forgotten = events.forgotten_counts();
        // Others may use the same file system where it is a disk of the guest's.
        if known > ROOM.into() || known + forgotten < u64::from(4 * ROOM) || !left.is_empty() {
            return Err(format!("{known} counters, {forgotten} forgotten, left: {left:?}").into());
        }
        Ok(Verdict::Passed)
    })
}

/// The same for cgroups: a walk finds what the ring had no room for.
pub(crate) fn cgroups_that_were_lost_are_found_by_a_walk(facts: &Facts) -> Outcome {
    let mut attached = match attach(facts, &[Rung::TraceCgroups], false) {
        Ok(attached) => attached,
        Err(reason) => return not_attached(reason),
    };
    let mut feed = attached.take_cgroups().ok_or("no feed")?;
    let cgroup = match Cgroup::new(facts, "lost") {
        Ok(cgroup) => cgroup,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    let mut names = CgroupNames::new(Hierarchy::detect()?);
    let path = |number: usize| cgroup.inner().join(number.to_string());
    let churn = (0..CGROUPS).try_for_each(|number| {
        fs::create_dir(path(number))?;
        fs::remove_dir(path(number))
    });
    churn?;
    fs::create_dir(path(CGROUPS))?;
    let last = Cgroup::id(&path(CGROUPS))?;
    let lost = feed.lost();
    names.follow(Box::new(feed));
    let known = names.name(last).map(str::to_owned);
    fs::remove_dir(path(CGROUPS))?;
    if lost == 0 {
        return Err(format!("{} changes unread, and none lost", 2 * CGROUPS).into());
    }
    if names.lost() < lost
        || !known
            .as_ref()
            .is_some_and(|name| name.ends_with("/inner/260"))
    {
        return Err(format!("{lost} lost; the last one is called {known:?}").into());
    }
    Ok(Verdict::Passed)
}
