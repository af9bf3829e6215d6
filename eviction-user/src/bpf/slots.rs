//! Arming from user space. Slots are mapped memory: reading the mark and storing the limit are single loads and stores.

use std::{
    num::NonZeroUsize,
    os::fd::{AsFd, OwnedFd},
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering, fence},
    },
};

use aya::maps::{HashMap, MapData};
use eviction_ebpf::{
    abi::{CLAIM_LAG, ClaimKey, Kind, SLOTS, Slot},
    credit::{LEVEL_UNKNOWN, Limit},
};
use nix::{
    errno::Errno,
    sys::mman::{MapFlags, ProtFlags, mmap, munmap},
};

use super::counting::Counting;

/// The mapped slots.
pub(super) struct SlotMap {
    base: NonNull<Slot>,
}

// SAFETY: the mapping is shared memory that the kernel writes to at any time; every access goes through atomics.
unsafe impl Send for SlotMap {}
// SAFETY: as above.
unsafe impl Sync for SlotMap {}

const LENGTH: NonZeroUsize =
    NonZeroUsize::new(SLOTS as usize * size_of::<Slot>()).expect("there are slots");

impl SlotMap {
    pub(super) fn new(map: &MapData) -> Result<Self, Errno> {
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a fresh mapping of the map's values; its length is what the object declares, and the kernel checks it.
        let base = unsafe {
            mmap(
                None,
                LENGTH,
                protection,
                MapFlags::MAP_SHARED,
                map.fd().as_fd(),
                0,
            )
        }?;
        Ok(Self { base: base.cast() })
    }

    fn word(&self, slot: u32, field: fn(*mut Slot) -> *mut u64) -> &AtomicU64 {
        assert!(slot < SLOTS, "slot {slot} of {SLOTS}");
        // SAFETY: within the mapping, which lives as long as `self`; `u64` fields of a `repr(C, align(8))` struct are aligned.
        unsafe { AtomicU64::from_ptr(field(self.base.as_ptr().add(slot as usize))) }
    }

    fn half(&self, slot: u32, field: fn(*mut Slot) -> *mut u32) -> &AtomicU32 {
        assert!(slot < SLOTS, "slot {slot} of {SLOTS}");
        // SAFETY: as above.
        unsafe { AtomicU32::from_ptr(field(self.base.as_ptr().add(slot as usize))) }
    }

    fn spent(&self, slot: u32) -> &AtomicU64 {
        // SAFETY: only the field's address is taken, here and below.
        self.word(slot, |slot| unsafe { &raw mut (*slot).spent })
    }

    fn limit(&self, slot: u32) -> &AtomicU64 {
        // SAFETY: see above.
        self.word(slot, |slot| unsafe { &raw mut (*slot).limit })
    }

    fn kind(&self, slot: u32) -> &AtomicU32 {
        // SAFETY: see above.
        self.half(slot, |slot| unsafe { &raw mut (*slot).kind })
    }

    /// Takes the first free one of `candidates`. One thread at a time hands out slots: `Attached` is borrowed mutably.
    pub(super) fn take(
        &self,
        candidates: std::ops::Range<u32>,
        kind: Kind,
        scope: u64,
        device: u32,
    ) -> Option<u32> {
        let slot = candidates
            .into_iter()
            .find(|slot| self.kind(*slot).load(Ordering::Acquire) == 0)?;
        self.limit(slot)
            .store(Limit::DISARMED.word(), Ordering::Release);
        // SAFETY: only fields' addresses are taken.
        unsafe {
            self.word(slot, |slot| &raw mut (*slot).level)
                .store(LEVEL_UNKNOWN, Ordering::Release);
            self.word(slot, |slot| &raw mut (*slot).scope)
                .store(scope, Ordering::Release);
            self.word(slot, |slot| &raw mut (*slot).css_hint)
                .store(0, Ordering::Release);
            self.half(slot, |slot| &raw mut (*slot).device)
                .store(device, Ordering::Release);
            self.half(slot, |slot| &raw mut (*slot).margin)
                .store(0, Ordering::Release);
        }
        self.kind(slot).store(kind as u32, Ordering::Release);
        // SAFETY: as above.
        self.half(0, |first| unsafe { &raw mut (*first).end })
            .fetch_max(slot + 1, Ordering::Release);
        Some(slot)
    }
}

impl Drop for SlotMap {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; handles keep the map alive through an `Arc`.
        if let Err(error) = unsafe { munmap(self.base.cast(), LENGTH.get()) } {
            tracing::warn!(%error, "the slots cannot be unmapped");
        }
    }
}

/// What was spent when a look began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a look is only covered if it is armed from the mark taken before it"]
pub struct Mark {
    spent: u64,
}

#[cfg(test)]
impl Mark {
    pub(super) const fn at(spent: u64) -> Self {
        Self { spent }
    }
}

/// What a look found: how much may still be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Credit {
    /// Pages, inodes, bytes or tasks to the nearest threshold.
    pub units: u64,
    /// Pages in the scope's counter (`memory.current`, `memory.usage_in_bytes`; the node: anon + file - inactive file) below
    /// which the threshold cannot be met, so that the kernel side can stay silent until then.
    pub level: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Armed {
    /// One event will come when the credit is used up.
    Armed,
    /// It may have been used up during the look: look again now. (It is armed all the same; an event may come as well.)
    AlreadyCrossed,
}

/// One armable slot. Dropping it frees the slot.
pub struct SlotHandle {
    map: Arc<SlotMap>,
    slot: u32,
    counting: Counting,
    claims: HashMap<MapData, ClaimKey, u32>,
    /// The last limit words, oldest overwritten next: their claims are removed once no program can still hold them.
    past: [u64; CLAIM_LAG],
    armings: usize,
    sequence: u16,
    unreported: u64,
}

impl SlotHandle {
    pub(super) fn new(
        map: Arc<SlotMap>,
        slot: u32,
        counting: Counting,
        claims: HashMap<MapData, ClaimKey, u32>,
    ) -> Self {
        let past = [Limit::DISARMED.word(); CLAIM_LAG];
        Self {
            map,
            slot,
            counting,
            claims,
            past,
            armings: 0,
            sequence: 0,
            unreported: 0,
        }
    }

    /// The number in [`eviction_ebpf::abi::Event::slot`].
    pub fn index(&self) -> u32 {
        self.slot
    }

    /// To be called *before* the look whose figures the credit is made from.
    pub fn begin(&self) -> Mark {
        Mark {
            spent: self.map.spent(self.slot).load(Ordering::SeqCst),
        }
    }

    /// Units that may be used up by now without having been spent, as the arming in force reckons with.
    pub(super) fn unreported(&self) -> u64 {
        self.unreported
    }

    /// Units spent since `mark`, worst case where the hook cannot tell.
    pub fn spent_since(&self, mark: Mark) -> u64 {
        self.map
            .spent(self.slot)
            .load(Ordering::Relaxed)
            .wrapping_sub(mark.spent)
    }

    /// Arms with `credit` from `mark` on.
    pub fn arm(&mut self, mark: Mark, credit: Credit) -> Armed {
        self.arm_checking(mark, credit, || None)
    }

    /// Like [`Self::arm`]. Where hooks count the worst case (a fault may be a huge page), a credit looks used up long before
    /// it is; with a level, `usage_now` (pages, read from the counter each time) can then tell that nothing happened.
    pub fn arm_checking(
        &mut self,
        mark: Mark,
        credit: Credit,
        usage_now: impl Fn() -> Option<u64>,
    ) -> Armed {
        let below = |margin| {
            let reached =
                |level| usage_now().is_none_or(|usage: u64| usage.saturating_add(margin) >= level);
            // Unless both the level and the usage are known, the level counts as reached.
            !credit.level.is_none_or(reached)
        };
        let settled = self.counting.settle(self.slot, credit.units, || below(0));
        let in_flight = settled.in_flight;
        self.unreported = in_flight.unreported;
        let limit = Limit::armed(self.sequence, mark.spent, in_flight.credit(credit.units));
        self.sequence = limit.sequence();
        let level = credit.level.unwrap_or(LEVEL_UNKNOWN);
        self.publish(limit, mark, level, settled.margin);
        self.forget_old_claim(limit);
        // Whoever added before this saw an older limit; whoever adds after it sees this one.
        fence(Ordering::SeqCst);
        let used_up = limit.crossed(self.map.spent(self.slot).load(Ordering::SeqCst));
        if settled.look_again || (used_up && !below(settled.margin.into())) {
            Armed::AlreadyCrossed
        } else {
            Armed::Armed
        }
    }

    /// No events until the next arming. What is spent goes on being counted.
    pub fn disarm(&mut self) {
        self.map
            .limit(self.slot)
            .store(Limit::DISARMED.word(), Ordering::SeqCst);
        self.counting.rest(self.slot);
    }

    /// The limit goes last: a program that sees it sees what belongs to it.
    fn publish(&self, limit: Limit, mark: Mark, level: u64, margin: u32) {
        // SAFETY: only fields' addresses are taken.
        unsafe {
            self.map
                .word(self.slot, |slot| &raw mut (*slot).mark)
                .store(mark.spent, Ordering::Release);
            self.map
                .word(self.slot, |slot| &raw mut (*slot).level)
                .store(level, Ordering::Release);
            self.map
                .half(self.slot, |slot| &raw mut (*slot).margin)
                .store(margin, Ordering::Release);
        }
        self.map
            .limit(self.slot)
            .store(limit.word(), Ordering::SeqCst);
    }

    fn forget_old_claim(&mut self, limit: Limit) {
        let entry = &mut self.past[self.armings % CLAIM_LAG];
        let old = std::mem::replace(entry, limit.word());
        self.armings += 1;
        if old != Limit::DISARMED.word() {
            // Most armings were never claimed: not finding it is the ordinary case.
            let _ = self.claims.remove(&ClaimKey {
                slot: self.slot.into(),
                limit_word: old,
            });
        }
    }
}

impl Drop for SlotHandle {
    fn drop(&mut self) {
        self.disarm();
        self.map.kind(self.slot).store(0, Ordering::Release);
        for word in self
            .past
            .into_iter()
            .filter(|word| *word != Limit::DISARMED.word())
        {
            let _ = self.claims.remove(&ClaimKey {
                slot: self.slot.into(),
                limit_word: word,
            });
        }
    }
}

/// A second owner of a map, for a handle of its own.
pub(super) fn share(map: &MapData) -> Result<MapData, ShareError> {
    let fd: OwnedFd = map.fd().as_fd().try_clone_to_owned()?;
    Ok(MapData::from_fd(fd)?)
}

#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    #[error("the map's descriptor cannot be duplicated")]
    Duplicate(#[from] std::io::Error),
    #[error("the map cannot be opened again")]
    Open(#[from] aya::maps::MapError),
}
