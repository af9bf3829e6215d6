//! The arithmetic of arming: pure integers, shared by the programs and the user side.
//!
//! A slot counts what is *spent* and never resets it. Arming stores a *limit*: spent so far plus a credit.
//! Whoever spends past the limit reports it. User space reads `spent` before it looks (the mark) and gives
//! credit from that mark on, so what is spent during the look is already paid for by the new credit.
//!
//! # Why no crossing is missed
//!
//! 1. *Nothing is used without being spent.* What raises a figure passes a hook that books at least as much, before the
//!    figure rises or ([`InFlight::unbooked`]) soon after. So from the look on the figure grows by no more than what has been
//!    spent since the mark, plus what was in flight when the mark was taken. Nothing is ever given back to a credit.
//! 2. *The credit is shorter than the distance* by what may be in flight, so `spent` passes the limit first.
//! 3. *Whoever passes it sees it.* A program adds, then reads the limit; user space stores the limit, then reads `spent`
//!    (`spend.rs`, `slots.rs`). Of two such pairs at least one sees the other: the program reports, or the arming says
//!    that it came too late. `tests/interleavings.rs` runs both through arbitrary orders. Units that a program leaves out or
//!    keeps for its CPU until they are a batch ([`fault_batch`], [`bytes_batch`]) count as in flight ([`InFlight::unreported`]);
//!    when a batch becomes shorter, the next look follows at once.
//! 4. *A report is sent once and never lost.* The claim of an arming is taken before its event is written, and given back
//!    when the ring is full: the next unit spent tries again, and the drop is counted.
//! 5. *Silence has to be earned.* Past the limit a program may stay silent only if the real counter shows room: its value,
//!    what is just being charged, and what other CPUs may add unseen ([`InFlight::ahead`]) stay below the slot's level. The
//!    limit stays crossed meanwhile, so every later unit compares again. A counter that cannot be read is a report.
//!    - *Group*: `page_counter.usage`, exact. The level is the line itself (limit - threshold), not raised by the inactive
//!      file pages that the look found: they may be dropped (reclaim, truncation) and others charged in their place while the
//!      usage stands still. With much page cache the level is reached at once, and the credit alone decides.
//!    - *Node*: anon + file - inactive file of `vm_node_stat`. Each CPU holds back up to `stat_threshold` pages of each item
//!      on each node (`__mod_node_page_state()`, 5.10 to 7.3; at most 125), see [`NodeLag`].
//!
//! # How late at most
//!
//! A look begins before more than this has been used past the line (2 CPUs: pages, then MiB):
//!
//! | rung | in flight | 2 CPUs |
//! |---|---|---|
//! | `page_counter_try_charge` | a charge on each CPU: 64 pages, or one huge page | 128 = 0.5, or 1024 = 4 |
//! | page faults one by one, `mm_page_alloc` | a fault on each CPU | 2 = 0, or 1024 = 4 |
//! | page faults in batches | `batch` faults on each CPU, but only while the line is farther than twice that | 0 |
//! | the node's line, in addition | what its `memory.stat` lags behind its counters, if that is less than 1 MiB (`agent/lines.rs`) | 256 = 1 |
//! | and | what the CPUs have in stock (not on the page-fault rung) and hold back ([`NodeLag`]) | 368 to 1136 = 1.4 to 4.4 |
//!
//! and only if all of it was in flight at the moment of one look; what is seen of it later shortens the next credit.
//!
//! # What charging cannot see
//!
//! Left to the heartbeat, which looks every second and, when less than 64 MiB are left, every 100 ms (`agent/pace.rs`):
//! - kernel memory that is not accounted (and no kernel memory at all is in the node's figure on cgroup v2);
//! - tasks in the root cgroup: `try_charge()` returns at once for them, so no counter is charged;
//! - activation of file pages, which turns inactive into used memory in place;
//! - hugetlb pages, which come from a pool of their own;
//! - kernel memory of a cgroup that is given back to a CPU's stock (`refill_stock()`) and taken from it as anonymous memory:
//!   the group's figure stays, the node's grows;
//! - a limit that is lowered: the line moves, nothing is charged;
//! - on the page-fault rung: writes to tmpfs, which neither fault nor pass `mm_filemap_add_to_page_cache` (its
//!   `shmem_add_to_page_cache()` has no tracepoint up to 7.3), and pages that the kernel charges by itself.

use crate::abi::WORST_FOLIO_PAGES;

/// Bits of a limit word that hold the limit itself; the others hold the arming's sequence number.
const VALUE_BITS: u32 = 48;
const VALUE_MASK: u64 = (1 << VALUE_BITS) - 1;

/// Counts are compared on a circle of 2^48, so a credit must be less than half of it.
pub const MAX_CREDIT: u64 = (1 << (VALUE_BITS - 1)) - 1;

/// A level that no usage reaches: the program has nothing to compare and reports as soon as the credit is spent.
pub const LEVEL_UNKNOWN: u64 = u64::MAX;

/// One arming: where the credit ends, and which arming it was. Fits in one atomic store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Limit(u64);

impl Limit {
    /// No arming: nothing is reported.
    pub const DISARMED: Self = Self(u64::MAX);

    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    #[inline(always)]
    pub const fn word(self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub const fn value(self) -> u64 {
        self.0 & VALUE_MASK
    }

    #[inline(always)]
    pub const fn sequence(self) -> u16 {
        (self.0 >> VALUE_BITS) as u16
    }

    #[inline(always)]
    pub const fn is_armed(self) -> bool {
        self.0 != Self::DISARMED.0
    }

    /// The limit `credit` past `mark`, distinct from the arming with sequence number `previous`.
    /// The sequence number 0xffff is left out, so that no arming looks like [`Self::DISARMED`].
    pub const fn armed(previous: u16, mark: u64, credit: u64) -> Self {
        let sequence = if previous >= u16::MAX - 1 {
            0
        } else {
            previous + 1
        };
        let credit = if credit > MAX_CREDIT {
            MAX_CREDIT
        } else {
            credit
        };
        let value = mark.wrapping_add(credit) & VALUE_MASK;
        Self(((sequence as u64) << VALUE_BITS) | value)
    }

    /// Whether `spent` has used up the credit of this arming.
    #[inline(always)]
    pub const fn crossed(self, spent: u64) -> bool {
        self.is_armed() && spent.wrapping_sub(self.0) & VALUE_MASK <= MAX_CREDIT
    }
}

/// Whether a counter that stands at `usage` and is about to grow by `charging` counts as at its level.
/// `ahead` is what other CPUs may be adding at this very moment without being visible in `usage`.
#[inline(always)]
pub const fn level_reached(usage: u64, charging: u64, ahead: u64, level: u64) -> bool {
    level != LEVEL_UNKNOWN && usage.saturating_add(charging).saturating_add(ahead) >= level
}

/// How many page faults one sample stands for while the threshold is far away.
pub const FAULT_BATCH: u32 = 1024;

/// Bytes that a CPU keeps while the threshold is far away: 64 blocks.
pub const BYTES_BATCH: u32 = 256 << 10;

/// Pages that one refill of a CPU's stock charges at once (`MEMCG_CHARGE_BATCH`, 32 on 5.10, 64 from 5.12); no stock is
/// larger.
pub const CHARGE_BATCH: u32 = 64;

/// The most that one call takes: an extent of ext4 has 32,768 blocks of 4 KiB, one of btrfs 128 MiB; xfs asks for less at a
/// time, tmpfs for a huge page.
pub const EXTENT_BYTES: u64 = 128 << 20;

/// How far the node's own counters, which a program compares, may lag behind the figure that a look reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeLag {
    /// Memcgs whose charges one CPU keeps in stock (`NR_MEMCG_STOCK`: 7 from 6.16 on; before that, one).
    pub stocks: u32,
    /// Pages of one item that one CPU may hold back (`stat_threshold`).
    pub threshold: u32,
    pub numa_nodes: u32,
}

impl NodeLag {
    /// The items that make up the figure: anon, file, inactive file.
    const ITEMS: u64 = 3;

    /// Pages in stock are charged and in no counter of the node until they are used.
    const fn in_stock(self, cpus: u32) -> u64 {
        CHARGE_BATCH as u64 * self.stocks as u64 * cpus as u64
    }

    /// Twice what can be held back: once when the look compares both figures, once when the program reads.
    const fn held_back(self, cpus: u32) -> u64 {
        2 * Self::ITEMS * self.threshold as u64 * self.numa_nodes as u64 * cpus as u64
    }
}

/// What spending at a hook can miss at any moment, because it has not happened or not been reported yet.
///
/// Nothing is ever given back: a return that becomes visible to the look before or after it is booked would be counted
/// twice by a credit that runs from the mark, and the threshold would be missed. Re-arming after a look does the same
/// job, exactly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight {
    /// Units that may have been used up without being in `spent` yet.
    pub unreported: u64,
    /// Units that may be in `spent` but not yet in the counter that a look reads.
    pub unbooked: u64,
    /// Units by which the counter that the program compares may be behind the one that a look reads.
    pub lag: u64,
}

impl InFlight {
    /// Inodes and tasks are seen one by one while they are made, one per CPU at a time. `inode_init_owner` runs before the
    /// table shows the inode used on tmpfs, after it on ext4; either way within the same call. A task is in the kernel's count
    /// (`nr_threads`) just before it is seen, not after: the same allowance makes up for it, and what is left of the distance
    /// when it is smaller than that is reported late by one task per CPU at most.
    pub const fn one_by_one(cpus: u32) -> Self {
        Self {
            unreported: 0,
            unbooked: cpus as u64,
            lag: 0,
        }
    }

    /// Disk space. Hook by hook, with what a look may not see although it is booked, or the reverse:
    /// - ext4, entry of `ext4_claim_free_clusters` and `ext4_mb_new_blocks`: booked, and the counter moves before the function
    ///   returns; one extent per call.
    /// - ext4, tracepoints: they fire after the counter has moved, so the look sees it first and the booking follows within
    ///   the same call: the report is late by one extent per CPU at worst, and nothing is missed.
    /// - xfs, entry of what changes the free blocks: as ext4; a transaction books its whole reservation and returns the rest,
    ///   which costs looks. Tracepoints: as ext4's.
    /// - btrfs: data is booked when it is reserved, up to a transaction (30 s) before `statfs` moves. No bound on that would
    ///   be small enough, so the same data is booked again when its extent is allocated, right before `statfs` moves: a credit
    ///   given between the two is used up by the second booking. A chunk of metadata reports whatever credit is left.
    /// - tmpfs, entry of the accounting function: one huge page per call.
    ///
    /// Space that is given back makes the growth smaller, never the credit; the growth gets it back when the function that
    /// frees it has returned, so that it is not ahead of `statfs`. A reservation that fails (ENOSPC) stays booked: looks too
    /// many, and a growth too high until the next scan.
    ///
    /// While the line is far, a CPU keeps less than `batch` bytes for itself before it spends them ([`bytes_batch`]).
    pub const fn bytes(batch: u32, cpus: u32) -> Self {
        Self {
            unreported: (batch as u64).saturating_sub(1) * cpus as u64,
            unbooked: EXTENT_BYTES * cpus as u64,
            lag: 0,
        }
    }

    /// Charges of a page counter are seen at entry, one per CPU at a time: the refill of a stock, or a large folio.
    pub const fn charges(cpus: u32) -> Self {
        Self {
            unreported: 0,
            unbooked: WORST_FOLIO_PAGES as u64 * cpus as u64,
            lag: 0,
        }
    }

    /// Page faults are seen one in `batch` per CPU; each may have brought in `pages_per_fault`.
    pub const fn faults(batch: u32, pages_per_fault: u32, cpus: u32) -> Self {
        let per_fault = pages_per_fault as u64 * cpus as u64;
        Self {
            unreported: (batch as u64).saturating_sub(1) * per_fault,
            unbooked: batch as u64 * per_fault,
            lag: 0,
        }
    }

    /// Charges, as the node's figure shows them: a charge comes to it only when its page is used.
    pub const fn node_charges(cpus: u32, lag: NodeLag) -> Self {
        let charges = Self::charges(cpus);
        Self {
            unreported: charges.unreported,
            unbooked: charges.unbooked + lag.in_stock(cpus),
            lag: lag.held_back(cpus),
        }
    }

    /// Page faults, compared with the node's counters.
    pub const fn node_faults(batch: u32, pages_per_fault: u32, cpus: u32, lag: NodeLag) -> Self {
        let faults = Self::faults(batch, pages_per_fault, cpus);
        Self {
            unreported: faults.unreported,
            unbooked: faults.unbooked,
            lag: lag.held_back(cpus),
        }
    }

    /// The credit that can be given so that the limit is crossed before `distance` units are really used. So near that this
    /// would leave less than half, half of the distance: the looks come closer and closer together, and the last is late by
    /// what was in flight, at worst.
    pub const fn credit(self, distance: u64) -> u64 {
        distance - margin(distance, self.unreported + self.unbooked)
    }

    /// How far ahead of the level the program has to report, by the same reasoning.
    pub const fn ahead(self, distance: u64) -> u32 {
        let ahead = margin(distance, self.unbooked + self.lag);
        if ahead < u32::MAX as u64 {
            ahead as u32
        } else {
            u32::MAX
        }
    }
}

/// `in_flight`, but no more than half of the distance.
const fn margin(distance: u64, in_flight: u64) -> u64 {
    if in_flight < distance / 2 {
        in_flight
    } else {
        distance / 2
    }
}

/// The sample period for page faults at `distance` pages from the nearest threshold: so short that what the CPUs may bring
/// in between two samples, huge pages assumed, is a small part of the distance. `compared`: the program has a counter to
/// compare, and a look is due only when that comes near; without one every sample spends its worst case, and a look is due
/// whenever that comes to the distance, so the period is shorter still. Longer periods come back only at twice the
/// distance, so that a workload that breathes around a step does not switch at every look.
pub const fn fault_batch(
    distance: u64,
    pages_per_fault: u32,
    cpus: u32,
    current: u32,
    compared: bool,
) -> u32 {
    let part = if compared { 2 } else { 16 };
    longest(
        FAULT_BATCH,
        part * pages_per_fault as u64 * cpus as u64,
        distance,
        current,
    )
}

/// Bytes that a CPU may come to keep for itself at `distance` bytes from the nearest threshold, before it spends all of them:
/// so few that what all CPUs keep is a sixteenth of the distance at most. 1: none.
pub const fn bytes_batch(distance: u64, cpus: u32, current: u32) -> u32 {
    longest(BYTES_BATCH, 16 * cpus as u64, distance, current)
}

/// The longest batch, of those that are a power of four shorter than `most`, with which `reach` units for each of its own stay
/// below the distance. See [`fault_batch`] for the way back.
pub const fn longest(most: u32, reach: u64, distance: u64, current: u32) -> u32 {
    let mut batch = most;
    while batch > 1 {
        let reach = reach * batch as u64;
        let needed = if batch > current {
            reach.saturating_mul(2)
        } else {
            reach
        };
        if distance > needed {
            return batch;
        }
        batch /= 4;
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_keeps_its_value_and_sequence() {
        let limit = Limit::armed(41, 1_000, 24);
        assert_eq!((limit.sequence(), limit.value()), (42, 1_024));
        assert_eq!(Limit::from_word(limit.word()), limit);
    }

    #[test]
    fn it_is_crossed_from_the_last_unit_of_credit_on() {
        let limit = Limit::armed(0, 1_000, 24);
        assert!(!limit.crossed(1_023));
        assert!(limit.crossed(1_024));
        assert!(limit.crossed(1_024 + MAX_CREDIT));
    }

    #[test]
    fn disarmed_is_never_crossed_and_never_the_result_of_arming() {
        assert!(!Limit::DISARMED.crossed(0));
        assert!(!Limit::DISARMED.crossed(u64::MAX));
        for previous in [0, 1, u16::MAX - 2, u16::MAX - 1, u16::MAX] {
            let limit = Limit::armed(previous, VALUE_MASK, 0);
            assert!(limit.is_armed(), "after {previous}");
            assert_ne!(limit.sequence(), previous);
        }
    }

    #[test]
    fn counting_goes_on_when_48_bits_are_full() {
        let mark = VALUE_MASK - 9;
        let limit = Limit::armed(7, mark, 20);
        assert!(!limit.crossed(mark + 19));
        assert!(limit.crossed(mark + 20));
    }

    #[test]
    fn a_level_is_reached_with_what_is_being_charged() {
        assert!(!level_reached(90, 5, 4, 100));
        assert!(level_reached(90, 5, 5, 100));
        assert!(!level_reached(u64::MAX, u64::MAX, 0, LEVEL_UNKNOWN));
    }

    #[test]
    fn credit_leaves_room_for_what_is_in_flight() {
        let batch = 64 * 512 * 2;
        let faults = InFlight::faults(64, 512, 2);
        assert_eq!(faults.credit(5 * batch), 5 * batch - 63 * 512 * 2 - batch);
        assert_eq!(faults.ahead(3 * batch), 64 * 512 * 2);
        assert_eq!(InFlight::charges(4).credit(8192), 8192 - 4 * 512);
        assert_eq!(InFlight::charges(4).ahead(8192), 4 * 512);
        assert_eq!(InFlight::one_by_one(2).credit(100), 98);
    }

    #[test]
    fn near_the_line_half_of_the_distance_is_given() {
        let faults = InFlight::faults(1, 512, 2);
        let pairs = [10, 2, 1].map(|distance| (faults.credit(distance), faults.ahead(distance)));
        assert_eq!(pairs, [(5, 5), (1, 1), (1, 0)]);
    }

    #[test]
    fn on_the_node_stocks_are_in_flight_and_its_counters_lag() {
        let lag = NodeLag {
            stocks: 7,
            threshold: 20,
            numa_nodes: 2,
        };
        let charges = InFlight::node_charges(4, lag);
        let stock = 7 * 64 * 4;
        assert_eq!(charges.credit(1 << 20), (1 << 20) - 512 * 4 - stock);
        assert_eq!(
            charges.ahead(1 << 20),
            512 * 4 + stock as u32 + 2 * 3 * 20 * 2 * 4
        );
        let faults = InFlight::node_faults(4, 512, 4, lag);
        assert_eq!(
            faults.credit(1 << 20),
            InFlight::faults(4, 512, 4).credit(1 << 20)
        );
        assert_eq!(faults.ahead(1 << 20), 4 * 512 * 4 + 2 * 3 * 20 * 2 * 4);
    }

    #[test]
    fn faults_are_sampled_more_often_the_nearer_the_threshold() {
        let reach = 512 * 2;
        let batch = |distance, current| fault_batch(distance, 512, 2, current, true);
        assert_eq!(batch(2 * 64 * reach + 1, 64), 64);
        assert_eq!(batch(2 * 64 * reach, 64), 16);
        assert_eq!(batch(2 * 16 * reach, 16), 4);
        assert_eq!(batch(2 * 4 * reach, 4), 1);
        assert_eq!(batch(4 * 64 * reach, 16), 16, "not back so soon");
        assert_eq!(batch(4 * 64 * reach + 1, 1), 64);
        assert_eq!(fault_batch(16 * 64 * reach, 512, 2, 64, false), 16);
        assert_eq!(fault_batch(16 * 64, 1, 1, 64, false), 16);
    }

    #[test]
    fn a_cpu_keeps_fewer_bytes_the_nearer_the_threshold() {
        let most = 16 * 2 * u64::from(BYTES_BATCH);
        let batch = |distance, current| bytes_batch(distance, 2, current);
        assert_eq!(batch(most + 1, BYTES_BATCH), BYTES_BATCH);
        assert_eq!(batch(most, BYTES_BATCH), BYTES_BATCH / 4);
        assert_eq!(batch(2 * most, 1), BYTES_BATCH / 4, "not back so soon");
        assert_eq!(batch(2 * most + 1, 1), BYTES_BATCH);
        assert_eq!(batch(128, BYTES_BATCH), 1);
        let kept = InFlight::bytes(BYTES_BATCH, 2).unreported;
        assert_eq!(kept, 2 * (u64::from(BYTES_BATCH) - 1));
        assert_eq!(InFlight::bytes(1, 2).unreported, 0);
    }
}
