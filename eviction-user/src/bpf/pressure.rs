//! The kernel side as a [`PressureSource`]: lines become slots, distances become credits.

use std::collections::BTreeMap;

use eviction_ebpf::abi::{Event, Rung};

use super::{Armed, Attached, Credit, Events, Mark, RingError, SlotError, SlotHandle};
use crate::{
    model::Timestamp,
    ports::{Distance, PressureEvent, PressureSource, Watch},
    sys::{
        cgroup::{GroupMemoryReader, PAGE_SIZE},
        clock,
    },
};

/// What is to be armed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    pub node_memory: bool,
    /// Id of the cgroup whose memory is watched.
    pub group_memory: Option<u64>,
    /// `st_dev` of the file system whose inodes are watched.
    pub inodes: Option<u64>,
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
    slots: [Option<ArmedSlot>; Watch::ALL.len()],
    device: Option<u64>,
    /// Reads the watched group's usage while arming, see [`SlotHandle::arm_checking`].
    group: Option<GroupMemoryReader>,
    undecodable: u64,
}

struct ArmedSlot {
    handle: SlotHandle,
    mark: Mark,
}

impl KernelEvents {
    /// Takes a slot for each wanted line whose hook is attached. Must be called within a tokio runtime with I/O.
    pub fn open(
        mut attached: Attached,
        wanted: &Wanted,
        group: Option<GroupMemoryReader>,
    ) -> Result<Self, OpenError> {
        let (memory, inodes) = (
            attached.report().memory.is_attached(),
            attached.report().inodes.is_attached(),
        );
        let node_memory = (memory && wanted.node_memory)
            .then(|| attached.memory_slot(None))
            .transpose()?;
        let group_id = wanted.group_memory.filter(|_| memory);
        let group_memory = group_id
            .map(|id| attached.memory_slot(Some(id)))
            .transpose()?;
        let device = wanted.inodes.filter(|_| inodes);
        let inodes = device
            .map(|device| attached.inode_slot(device))
            .transpose()?;
        let events = attached.take_events()?;
        let slots = [node_memory, group_memory, inodes].map(|slot| {
            slot.map(|handle| ArmedSlot {
                mark: handle.begin(),
                handle,
            })
        });
        Ok(Self {
            attached,
            events,
            slots,
            device,
            group,
            undecodable: 0,
        })
    }

    /// What cannot be understood is counted with the lost ones.
    fn understand(&mut self, event: Result<Event, RingError>) -> Option<PressureEvent> {
        let known = event.ok().and_then(|event| {
            let watch = self.watch_of(event.slot)?;
            let rung = Rung::try_from(event.rung).ok()?;
            Some(PressureEvent {
                time: Timestamp::from_nanos(i64::try_from(event.time_ns).unwrap_or(i64::MAX)),
                watch,
                cgroup: event.cgroup_id,
                amount: event.amount,
                pid: event.tgid,
                while_arming: false,
                rung: rung.name(),
            })
        });
        self.undecodable += u64::from(known.is_none());
        known
    }

    fn watch_of(&self, slot: u32) -> Option<Watch> {
        let is_it = |watch: &Watch| {
            self.slots[*watch as usize]
                .as_ref()
                .is_some_and(|s| s.handle.index() == slot)
        };
        Watch::ALL.into_iter().find(is_it)
    }
}

impl PressureSource for KernelEvents {
    fn mark(&mut self) {
        for slot in self.slots.iter_mut().flatten() {
            slot.mark = slot.handle.begin();
        }
    }

    fn arm(&mut self, watch: Watch, distance: Distance) -> Option<PressureEvent> {
        let report = self.attached.report();
        let rung = if watch.is_memory() {
            report.memory.source()
        } else {
            report.inodes.source()
        };
        let Some(slot) = &mut self.slots[watch as usize] else {
            return None;
        };
        let left = u64::try_from(distance.left).unwrap_or(0);
        // Down to whole pages, but never to nothing: the line has not been crossed.
        let units = if watch.is_memory() {
            left / PAGE_SIZE
        } else {
            left
        }
        .max(1);
        let credit = Credit {
            units,
            level: distance.level.map(|level| level / PAGE_SIZE),
        };
        let group = self.group.as_ref();
        let usage_now = || group?.usage().ok().map(|bytes| bytes / PAGE_SIZE);
        let armed = slot.handle.arm_checking(slot.mark, credit, usage_now);
        (armed == Armed::AlreadyCrossed).then(|| PressureEvent {
            time: clock::now(),
            watch,
            cgroup: 0,
            amount: slot.handle.spent_since(slot.mark),
            pid: 0,
            while_arming: true,
            rung,
        })
    }

    fn disarm(&mut self, watch: Watch) {
        if let Some(slot) = &mut self.slots[watch as usize] {
            slot.handle.disarm();
        }
    }

    fn covers(&self, watch: Watch) -> bool {
        self.slots[watch as usize].is_some()
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

    fn inodes_made(&mut self) -> BTreeMap<u64, u64> {
        self.device
            .map(|device| self.attached.inode_use(device).collect())
            .unwrap_or_default()
    }

    fn lost_events(&mut self) -> u64 {
        // Counters that cannot be read hide nothing: a full ring reports at the next unit spent.
        let drops = self.attached.drops().unwrap_or_default();
        drops.memory + drops.files + self.undecodable
    }
}
