//! The kernel side as a [`PressureSource`]: lines become slots, distances become credits.

mod device;
mod written;

use std::collections::BTreeSet;

use eviction_ebpf::abi::{Event, Kind, Rung, Stall, VICTIM_SLOT};

use super::{
    Armed, Attached, Credit, Events, Family, Mark, Report, RingError, SlotError, SlotHandle,
    vigil::Vigil,
};
use crate::{
    model::{Resource, Signal, Timestamp},
    ports::{
        Coverage, Distance, Growth, Moved, OomVictim, PressureEvent, PressureSource, SilentHook,
    },
    sys::{
        cgroup::{GroupMemoryReader, PAGE_SIZE},
        clock,
        filesystem::FileSystem,
        meminfo::NodeCounters,
        mount::FsKind,
        trust::{self, Doubt},
    },
};

/// What is to be armed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub node_memory: bool,
    /// Id of the cgroup whose memory is watched.
    pub group_memory: Option<u64>,
    /// Signals of inodes and bytes that hooks can follow.
    pub devices: Vec<WantedDevice>,
    pub pids: bool,
    /// Signals of bytes that no hook can follow.
    pub uncounted: BTreeSet<Signal>,
    /// Why the others cannot be followed, in words for people.
    pub doubts: Vec<String>,
}

/// A file system's line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedDevice {
    pub signal: Signal,
    pub family: Family,
    /// Of its super block, as `stat` shows it.
    pub device: u64,
    pub kind: FsKind,
}

impl WantedDevice {
    /// Where no hook is known, that is the doubt.
    pub(super) fn new(signal: Signal, device: u64, kind: Option<FsKind>) -> Result<Self, Doubt> {
        let kind = kind.unwrap_or_else(|| FsKind::Other("unknown".to_owned()));
        let family = Family::of_device(signal.resource(), &kind)
            .ok_or_else(|| Doubt::NoHook(kind.name().to_owned()))?;
        Ok(Self {
            signal,
            family,
            device,
            kind,
        })
    }
}

impl Wanted {
    /// A line of a file system: to be followed by hooks, or not, and then why.
    pub fn add_device(&mut self, signal: Signal, fs: &FileSystem) {
        if let Some(doubt) = trust::unfollowed(fs, signal) {
            self.doubts.push(doubt);
            self.uncounted.extend(of_bytes(signal));
            return;
        }
        let kind = fs.mount.as_ref().map(|mount| mount.kind.clone());
        match WantedDevice::new(signal, fs.device, kind) {
            Ok(device) => self.devices.push(device),
            Err(doubt) => {
                let place = fs.path().display();
                self.doubts.push(format!("{signal} at {place}: {doubt}"));
                self.uncounted.extend(of_bytes(signal));
            }
        }
    }

    /// The families of hooks that this takes.
    pub fn families(&self) -> Vec<Family> {
        let wants = |family: &Family| match family {
            Family::Memory => self.node_memory || self.group_memory.is_some(),
            Family::Pids => self.pids,
            Family::Observations => false,
            family => self.devices.iter().any(|device| device.family == *family),
        };
        Family::ALL.into_iter().filter(wants).collect()
    }

    /// The lines that events alone do not cover, in words for people: of their file systems only what is written is seen.
    pub fn bounded(&self, report: &Report) -> Vec<String> {
        let by_writes = |wanted: &&WantedDevice| {
            let serving = report.serving(wanted.family);
            serving == Family::WrittenBytes && report.of(serving).is_attached()
        };
        let told = |wanted: &WantedDevice| {
            let signal = wanted.signal;
            format!("{signal}: {}", written::bound(wanted.kind.name(), report))
        };
        self.devices.iter().filter(by_writes).map(told).collect()
    }

    /// Those, what makes the ranking better, and what is told besides.
    pub fn families_to_attach(&self) -> Vec<Family> {
        let mut families = self.families();
        families.push(Family::Observations);
        with_company(families)
    }
}

/// The signal, if it is about disk space.
pub(super) fn of_bytes(signal: Signal) -> Option<Signal> {
    (signal.resource() == Resource::EphemeralStorage).then_some(signal)
}

/// Inodes being freed make the growth of those that are made the better.
pub(super) fn with_company(mut families: Vec<Family>) -> Vec<Family> {
    if families.contains(&Family::Inodes) {
        families.push(Family::Freed);
    }
    families
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Slot(#[from] SlotError),
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// Slots armed in the running kernel, and their events.
pub struct KernelEvents {
    attached: Attached,
    events: Events,
    slots: Vec<ArmedSlot>,
    /// Read the counters that the programs compare while arming, see [`SlotHandle::arm_checking`].
    group: Option<GroupMemoryReader>,
    node: Option<NodeCounters>,
    undecodable: u64,
    victims: Vec<OomVictim>,
    /// Counters of growth that the kernel's table had no room for any more, in all.
    forgotten: u64,
    /// Some slot was given back: an event of it may still come.
    has_released: bool,
    /// Lines of bytes for which no hook is attached.
    uncounted: BTreeSet<Signal>,
}

struct ArmedSlot {
    handle: SlotHandle,
    mark: Mark,
    family: Family,
    /// Of a file system.
    device: Option<u64>,
    /// Those that share this slot, because they are about the same device.
    signals: Vec<Signal>,
    vigils: Vec<Vigil>,
    /// Some of what is used up goes unseen (on tmpfs each hard link takes an inode, and no hook is called that all kernels
    /// have; what is written is not all that is taken): the timer has to go on as if no event came.
    leaks: bool,
    /// The nearest line of those armed since the mark.
    nearest: Option<(Signal, Distance)>,
}

impl ArmedSlot {
    fn new(handle: SlotHandle, signal: Signal, family: Family) -> Self {
        Self {
            family,
            device: None,
            leaks: false,
            mark: handle.begin(),
            handle,
            signals: vec![signal],
            vigils: vec![Vigil::new(signal, family)],
            nearest: None,
        }
    }

    fn also_for(&mut self, signal: Signal) {
        self.signals.push(signal);
        self.vigils.push(Vigil::new(signal, self.family));
    }

    fn vigil(&mut self, signal: Signal) -> Option<&mut Vigil> {
        self.vigils
            .iter_mut()
            .find(|vigil| vigil.signal() == signal)
    }

    /// After the arming: what the look found has been spent by now, if the hook runs at all.
    fn watch_over(&mut self, signal: Signal, left: i64) {
        if self.leaks {
            // What falls unseen here says nothing of the hook.
            return;
        }
        let unit = match self.family {
            Family::Memory => PAGE_SIZE,
            _ => 1,
        };
        let owed = self.handle.unreported().saturating_mul(unit);
        let spent = self.handle.begin();
        if let Some(vigil) = self.vigil(signal) {
            vigil.look(left, spent, i64::try_from(owed).unwrap_or(i64::MAX));
        }
    }
}

impl KernelEvents {
    /// Takes a slot for each wanted line whose hook is attached. Must be called within a tokio runtime with I/O.
    pub fn open(
        mut attached: Attached,
        wanted: &Wanted,
        group: Option<GroupMemoryReader>,
    ) -> Result<Self, OpenError> {
        let has = |attached: &Attached, family| attached.report().of(family).is_attached();
        let mut slots = Vec::new();
        let scopes = [
            (Signal::MemoryAvailable, wanted.node_memory.then_some(None)),
            (
                Signal::AllocatableMemoryAvailable,
                wanted.group_memory.map(Some),
            ),
        ];
        for (signal, scope) in scopes {
            if let Some(scope) = scope.filter(|_| has(&attached, Family::Memory)) {
                let handle = attached.memory_slot(scope)?;
                slots.push(ArmedSlot::new(handle, signal, Family::Memory));
            }
        }
        if wanted.pids && has(&attached, Family::Pids) {
            let handle = attached.forks_slot()?;
            slots.push(ArmedSlot::new(handle, Signal::PidAvailable, Family::Pids));
        }
        let mut opened = Self {
            events: attached.take_events()?,
            attached,
            slots,
            group,
            node: NodeCounters::open().ok(),
            undecodable: 0,
            victims: Vec::new(),
            forgotten: 0,
            has_released: false,
            uncounted: wanted.uncounted.clone(),
        };
        for device in &wanted.devices {
            if !opened.watch(device)? {
                opened.uncounted.extend(of_bytes(device.signal));
            }
        }
        Ok(opened)
    }

    /// The programs, to be taken away for a moment.
    pub fn attached_mut(&mut self) -> &mut Attached {
        &mut self.attached
    }

    /// Time that each cgroup's tasks spent in direct reclaim since the start, by its id.
    pub fn stalls(&self) -> impl Iterator<Item = (u64, Stall)> {
        self.attached.stalls()
    }

    /// What cannot be understood is counted with the lost ones.
    fn understand(&mut self, event: Result<Event, RingError>) -> Option<PressureEvent> {
        let mut stale = false;
        let known = event.ok().and_then(|event| {
            let time = Timestamp::from_nanos(i64::try_from(event.time_ns).unwrap_or(i64::MAX));
            let rung = Rung::try_from(event.rung).ok()?;
            if event.slot == VICTIM_SLOT {
                self.victims.push(OomVictim {
                    time,
                    pid: event.tgid,
                    cgroup: event.cgroup_id,
                });
                // Memory has run out somewhere, which every other line of memory may feel.
                return Some(PressureEvent {
                    time,
                    signal: Signal::MemoryAvailable,
                    cgroup: event.cgroup_id,
                    amount: 0,
                    pid: event.tgid,
                    while_arming: false,
                    rung: rung.name(),
                });
            }
            let of_event = |slot: &&ArmedSlot| slot.handle.index() == event.slot;
            let slot = match self.slots.iter().find(of_event) {
                Some(slot) => slot,
                None if self.has_released => {
                    stale = true;
                    return None;
                }
                None => return None,
            };
            let nearest = slot.nearest.map(|(signal, _)| signal);
            Some(PressureEvent {
                time,
                signal: nearest.or(slot.signals.first().copied())?,
                cgroup: event.cgroup_id,
                amount: event.amount,
                pid: event.tgid,
                while_arming: false,
                rung: rung.name(),
            })
        });
        self.undecodable += u64::from(known.is_none() && !stale);
        known
    }
}

impl PressureSource for KernelEvents {
    fn mark(&mut self) {
        for slot in &mut self.slots {
            slot.mark = slot.handle.begin();
            slot.nearest = None;
        }
    }

    fn arm(&mut self, signal: Signal, distance: Distance) -> Option<PressureEvent> {
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.signals.contains(&signal))?;
        let found = distance.left;
        // Of several lines on one device the nearest one counts; the last of them to be armed settles it.
        let told = slot
            .nearest
            .filter(|(_, before)| before.left <= distance.left);
        let (nearest, distance) = told.unwrap_or((signal, distance));
        slot.nearest = Some((nearest, distance));
        let family = slot.family;
        let left = u64::try_from(distance.left).unwrap_or(0);
        // Down to whole pages, but never to nothing: the line has not been crossed.
        let units = match family {
            Family::Memory => left / PAGE_SIZE,
            _ => left,
        }
        .max(1);
        let credit = Credit {
            units,
            level: distance
                .level
                .filter(|_| self.attached.compares())
                .map(|level| level / PAGE_SIZE),
        };
        let (group, node) = (self.group.as_ref(), self.node.as_ref());
        let usage_now = || {
            let bytes = match nearest {
                Signal::MemoryAvailable => node?.used(),
                _ => group?.usage(),
            };
            Some(bytes.ok()? / PAGE_SIZE)
        };
        let armed = slot.handle.arm_checking(slot.mark, credit, usage_now);
        slot.watch_over(signal, found);
        (armed == Armed::AlreadyCrossed).then(|| PressureEvent {
            time: clock::now(),
            signal: nearest,
            cgroup: 0,
            amount: slot.handle.spent_since(slot.mark),
            pid: 0,
            while_arming: true,
            rung: self.attached.report().of(family).source(),
        })
    }

    fn disarm(&mut self, signal: Signal) {
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.signals.contains(&signal));
        let Some(slot) = slot else { return };
        if let Some(vigil) = slot.vigil(signal) {
            vigil.rest();
        }
        // Another line on the same device may be armed.
        if slot.nearest.is_none() {
            slot.handle.disarm();
        }
    }

    fn covers(&self, signal: Signal) -> bool {
        let slots = self.slots.iter().filter(|slot| !slot.leaks);
        let mut vigils = slots.flat_map(|slot| &slot.vigils);
        vigils.any(|vigil| vigil.signal() == signal && !vigil.is_silent())
    }

    async fn next(&mut self) -> PressureEvent {
        loop {
            let event = self.events.next().await;
            if let Err(RingError::Wait(error)) = &event {
                tracing::error!(%error, "no more kernel events: looking on the heartbeat alone");
                std::future::pending::<()>().await;
            }
            if let Some(event) = self.understand(event) {
                return event;
            }
        }
    }

    fn pending(&mut self) -> Option<PressureEvent> {
        while let Some(event) = self.events.try_next() {
            if let Some(event) = self.understand(event) {
                return Some(event);
            }
        }
        None
    }

    fn upkeep(&mut self) {
        if let Err(error) = self.attached.follow_cpus() {
            tracing::warn!(%error, "page faults on a CPU that came online are not seen: looking on the heartbeat for them");
        }
    }

    /// Only what is attached can be used here; [`super::KernelSides`] attaches more.
    fn follow(&mut self, moved: &Moved) {
        for line in &moved.signals {
            self.release(line.signal);
        }
    }

    fn coverage(&self, signal: Signal) -> Option<Coverage> {
        Some(Coverage::Timer(format!(
            "{signal}: its file system is not that of the start"
        )))
    }

    fn growth(&mut self) -> Growth {
        let mut growth = Growth::default();
        // Read before them: one that is begun meanwhile must not look like one that is gone.
        let begun = self.attached.growth_begun().unwrap_or(0);
        let mut there = 0;
        for (kind, consumer, grown) in self.attached.growth() {
            there += 1;
            match kind {
                Kind::Inodes => growth.inodes.insert(consumer, grown),
                Kind::Bytes => growth.bytes.insert(consumer, grown),
                Kind::Memory | Kind::Forks | Kind::OomKill | Kind::Written => None,
            };
        }
        let gone = begun.saturating_sub(there + self.attached.growth_dropped());
        self.forgotten = self.forgotten.max(gone);
        let bounded = |slot: &ArmedSlot| slot.family == Family::WrittenBytes;
        growth.uncounted_bytes = !self.uncounted.is_empty() || self.slots.iter().any(bounded);
        growth
    }

    fn oom_victims(&mut self) -> Vec<OomVictim> {
        std::mem::take(&mut self.victims)
    }

    fn silent_hooks(&mut self) -> Vec<SilentHook> {
        let report = self.attached.report();
        let vigils = self.slots.iter_mut().flat_map(|slot| {
            let family = slot.family;
            slot.vigils.iter_mut().map(move |vigil| (family, vigil))
        });
        let news = vigils.filter_map(|(family, vigil)| {
            Some(SilentHook {
                signal: vigil.signal(),
                rung: report.of(family).source(),
                unseen: vigil.take_news()?,
            })
        });
        news.collect()
    }

    fn forgotten_counts(&mut self) -> u64 {
        self.forgotten
    }

    fn lost_events(&mut self) -> u64 {
        // Counters that cannot be read hide nothing: a full ring reports at the next unit spent.
        let drops = self.attached.drops().unwrap_or_default();
        drops.memory + drops.files + self.undecodable
    }
}
