//! Full rings: what is lost is counted, and nothing stays unknown.

use std::{collections::BTreeSet, fs, time::Duration};

use eviction_user::{
    bpf::{AttachOptions, Attached, Credit, Facts, Family, KernelEvents, Rung, Wanted, plan},
    model::Signal,
    ports::PressureSource,
    sys::{
        cgroup::{CgroupNames, ChangeFeed, Hierarchy},
        filesystem::FileSystem,
    },
};
use libtest_mimic::Failed;
use tempfile::TempDir;

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

/// A file system that is watched, and a cgroup whose load makes files on it.
struct Watched {
    attached: Attached,
    mount: Mount,
    /// Where the files are made: a disk that several scenarios share has files of those names already.
    folder: TempDir,
    cgroup: Cgroup,
}

impl Watched {
    /// `Err`: a reason to skip.
    fn new(facts: &Facts, name: &str, growth_room: Option<u32>) -> Result<Self, String> {
        let options = AttachOptions {
            growth_room,
            ..AttachOptions::default()
        };
        let attached = Attached::attach(facts, &plan(facts), &options);
        if !attached.report().of(Family::Inodes).is_attached() {
            return Err("no inode hook can be attached".into());
        }
        let mount = Mount::ext4().or_else(|_| Mount::tmpfs())?;
        let folder = TempDir::new_in(mount.path());
        Ok(Self {
            attached,
            folder: folder.map_err(|error| format!("no directory of our own: {error}"))?,
            mount,
            cgroup: Cgroup::new(facts, name)?,
        })
    }

    /// To be called within a runtime.
    fn open(self) -> Result<Scene, Failed> {
        let mut wanted = Wanted::default();
        wanted.add_device(
            Signal::NodeFsInodesFree,
            &FileSystem::at(self.mount.path())?,
        );
        Ok(Scene {
            events: KernelEvents::open(self.attached, &wanted, None)?,
            cgroup: self.cgroup,
            folder: self.folder,
            _mount: self.mount,
        })
    }
}

/// The same with its counters running. Fields are dropped in this order: the mount after what lies on it.
struct Scene {
    events: KernelEvents,
    cgroup: Cgroup,
    folder: TempDir,
    _mount: Mount,
}

/// More cgroups than the table of growth holds: the oldest counters go, and that they did is known.
pub(crate) fn counters_that_had_to_make_room_are_counted(facts: &Facts) -> Outcome {
    let watched = match Watched::new(facts, "room", Some(ROOM)) {
        Ok(watched) => watched,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    runtime()?.block_on(async {
        let mut scene = watched.open()?;
        let (events, cgroup, folder) = (&mut scene.events, &scene.cgroup, &scene.folder);
        let mut load = Load::start(&cgroup.inner())?;
        load.make_files_in(&cgroup.inner(), folder.path(), 0, 1)?;
        let known = events.growth().inodes.len();
        if known == 0 || events.forgotten_counts() > 0 {
            return Err(format!("{known} counters after one file").into());
        }
        let path = |number: u32| cgroup.path.join(format!("{number}"));
        for number in 1..=4 * ROOM {
            fs::create_dir(path(number))?;
            load.make_files_in(&path(number), folder.path(), number, 1)?;
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

/// Its id is another one: what the old one used up is not laid to its charge.
pub(crate) fn a_cgroup_made_again_under_its_name_counts_from_nothing(facts: &Facts) -> Outcome {
    let watched = match Watched::new(facts, "again", None) {
        Ok(watched) => watched,
        Err(reason) => return Ok(Verdict::Skipped(reason)),
    };
    runtime()?.block_on(async {
        let mut scene = watched.open()?;
        let (events, cgroup, folder) = (&mut scene.events, &scene.cgroup, &scene.folder);
        let path = cgroup.path.join("job");
        let mut ids = Vec::new();
        for (from, files) in [(1000, 10), (2000, 3)] {
            fs::create_dir(&path)?;
            let mut load = Load::start(&path)?;
            load.make_files_in(&path, folder.path(), from, files)?;
            ids.push(Cgroup::id(&path)?);
            drop(load);
            if !scratch::remove(&path) {
                return Err(format!("{} cannot be removed", path.display()).into());
            }
        }
        let growth = events.growth().inodes_by_cgroup();
        let counted: Vec<_> = ids.iter().map(|id| growth.get(id).copied()).collect();
        if ids[0] == ids[1] || counted != [Some(10), Some(3)] {
            return Err(format!("cgroups {ids:?} made {counted:?} files").into());
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
