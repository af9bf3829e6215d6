//! The arithmetic of arming: pure integers, shared by the programs and the user side.
//!
//! A slot counts what is *spent* and never resets it. Arming stores a *limit*: spent so far plus a credit.
//! Whoever spends past the limit reports it. User space reads `spent` before it looks (the mark) and gives
//! credit from that mark on, so what is spent during the look is already paid for by the new credit.

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
pub const FAULT_BATCH: u32 = 64;

/// Pages that one refill of a CPU's stock charges at once (`MEMCG_CHARGE_BATCH`, 32 on 5.10, 64 from 5.12).
pub const CHARGE_BATCH: u32 = 64;

/// The most that one call takes: an extent of ext4 has 32,768 blocks, one of btrfs 128 MiB; xfs asks for less at a time.
pub const EXTENT_BYTES: u64 = 128 << 20;

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
}

impl InFlight {
    /// Inodes and tasks are seen one by one while they are made, one per CPU at a time.
    pub const fn one_by_one(cpus: u32) -> Self {
        Self {
            unreported: 0,
            unbooked: cpus as u64,
        }
    }

    /// Disk space is seen when a function is asked for it, at most one extent per CPU at a time; `statfs` shows it when that
    /// function is done. Hooks that fire afterwards instead (tracepoints of ext4) make the report late by the same much.
    pub const fn bytes(cpus: u32) -> Self {
        Self {
            unreported: 0,
            unbooked: EXTENT_BYTES * cpus as u64,
        }
    }

    /// Charges of a page counter are seen at entry, one stock refill per CPU at a time.
    pub const fn charges(cpus: u32) -> Self {
        Self {
            unreported: 0,
            unbooked: CHARGE_BATCH as u64 * cpus as u64,
        }
    }

    /// Page faults are seen one in `batch` per CPU; each may have brought in `pages_per_fault`.
    pub const fn faults(batch: u32, pages_per_fault: u32, cpus: u32) -> Self {
        let per_fault = pages_per_fault as u64 * cpus as u64;
        Self {
            unreported: (batch as u64).saturating_sub(1) * per_fault,
            unbooked: batch as u64 * per_fault,
        }
    }

    /// The credit that can be given so that the limit is crossed before `distance` units are really used. What was booked
    /// before the mark and had not reached the counter when the look read it is taken off, except when so little is left
    /// that every unit would report: then the report is late by what was in flight, at worst.
    pub const fn credit(self, distance: u64) -> u64 {
        let rest = distance.saturating_sub(self.unreported);
        if rest > self.unbooked {
            rest - self.unbooked
        } else {
            rest
        }
    }

    /// How far ahead of the level the program has to report, by the same reasoning.
    pub const fn ahead(self, distance: u64) -> u32 {
        if distance > self.unbooked && self.unbooked <= u32::MAX as u64 {
            self.unbooked as u32
        } else {
            0
        }
    }
}

/// The sample period for page faults at `distance` pages from the nearest threshold: single faults as soon as a
/// batch on every CPU, huge pages assumed, could reach it. Back to batches only at twice that, so that a workload
/// that breathes around the line does not switch at every look.
pub const fn fault_batch(distance: u64, pages_per_fault: u32, cpus: u32, current: u32) -> u32 {
    let reach = FAULT_BATCH as u64 * pages_per_fault as u64 * cpus as u64;
    let needed = if current == 1 {
        reach.saturating_mul(2)
    } else {
        reach
    };
    if distance <= needed { 1 } else { FAULT_BATCH }
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
        assert_eq!(faults.credit(3 * batch), 3 * batch - 63 * 512 * 2 - batch);
        assert_eq!(faults.ahead(3 * batch), 64 * 512 * 2);
        assert_eq!(faults.ahead(batch), 0);
        assert_eq!(InFlight::faults(1, 512, 2).credit(10), 10);
        assert_eq!(InFlight::charges(4).credit(256), 256);
        assert_eq!(InFlight::charges(4).credit(257), 1);
        assert_eq!(InFlight::charges(4).ahead(257), 256);
        assert_eq!(InFlight::one_by_one(2).credit(100), 98);
    }

    #[test]
    fn faults_are_sampled_one_by_one_near_the_threshold() {
        let reach = 64 * 512 * 2;
        assert_eq!(fault_batch(reach + 1, 512, 2, FAULT_BATCH), FAULT_BATCH);
        assert_eq!(fault_batch(reach, 512, 2, FAULT_BATCH), 1);
        assert_eq!(fault_batch(2 * reach, 512, 2, 1), 1);
        assert_eq!(fault_batch(2 * reach + 1, 512, 2, 1), FAULT_BATCH);
        assert_eq!(fault_batch(reach, 1, 2, FAULT_BATCH), FAULT_BATCH);
    }
}
