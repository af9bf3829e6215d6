//! How a slot's units are counted, and what of them may be in flight.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use eviction_ebpf::{
    abi::WORST_FOLIO_PAGES,
    credit::{InFlight, NodeLag, bytes_batch},
};

use super::faults::FaultSampling;

/// CPUs that are online, as everybody who reckons with them last heard.
#[derive(Clone, Debug)]
pub(super) struct Cpus(Arc<AtomicU32>);

impl Cpus {
    pub(super) fn new(online: u32) -> Self {
        Self(Arc::new(AtomicU32::new(online)))
    }

    pub(super) fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, online: u32) {
        self.0.store(online, Ordering::Relaxed);
    }
}

pub(super) enum Counting {
    /// `node`: compared with the node's counters.
    Charges { cpus: Cpus, node: Option<NodeLag> },
    Faults {
        sampling: Arc<FaultSampling>,
        node: Option<NodeLag>,
    },
    /// Pages as they are allocated, one allocation per CPU at a time.
    Allocations { cpus: Cpus },
    /// Bytes of disk space. Of those a CPU may keep up to `batch` for itself, as settled last.
    Bytes { cpus: Cpus, batch: u32 },
    /// Bytes written where space is not seen taken.
    Written { cpus: Cpus },
    /// Units that are seen one call per CPU at a time.
    OneByOne { cpus: Cpus },
}

/// What an arming has to know.
pub(super) struct Settled {
    pub(super) in_flight: InFlight,
    /// [`eviction_ebpf::abi::Slot::margin`]
    pub(super) margin: u32,
    /// What was used up shortly before may be in no figure that the look has read.
    pub(super) look_again: bool,
}

impl Counting {
    /// Takes note of the slot's distance. `compared` says whether the program has a level to compare that is not reached; it
    /// is asked only where that matters.
    pub(super) fn settle(
        &mut self,
        slot: u32,
        distance: u64,
        compared: impl FnOnce() -> bool,
    ) -> Settled {
        let in_flight = match self {
            Self::Charges { cpus, node: None } => InFlight::charges(cpus.get()),
            Self::Charges {
                cpus,
                node: Some(lag),
            } => InFlight::node_charges(cpus.get(), *lag),
            Self::Allocations { cpus } => InFlight::faults(1, WORST_FOLIO_PAGES, cpus.get()),
            Self::Bytes { cpus, batch } => {
                let before = *batch;
                *batch = bytes_batch(distance, cpus.get(), before);
                return Settled {
                    in_flight: InFlight::bytes(*batch, cpus.get()),
                    margin: *batch,
                    // A CPU that has read the longer one may keep more than this arming reckons with, once.
                    look_again: *batch < before,
                };
            }
            Self::Written { cpus } => InFlight::bytes(1, cpus.get()),
            Self::OneByOne { cpus } => InFlight::one_by_one(cpus.get()),
            Self::Faults { sampling, node } => {
                return sampling.settle(slot, distance, compared(), *node);
            }
        };
        Settled {
            in_flight,
            margin: in_flight.ahead(distance),
            look_again: false,
        }
    }

    /// The slot is no longer armed.
    pub(super) fn rest(&self, slot: u32) {
        if let Self::Faults { sampling, node } = self {
            sampling.settle(slot, u64::MAX, true, *node);
        }
    }
}
