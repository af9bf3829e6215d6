//! The kernel side's driver: facts -> plan -> attach, then events out of the rings and arming into the slots.
//!
//! ```text
//! Facts::gather ──> plan() ──> Attached::attach ──> memory_slot(), device_slot() ──> SlotHandle: begin, (look), arm
//!                                        └────────> take_events() ──> Events::next
//! ```

mod attach;
mod attacher;
mod bundle;
mod climb;
mod counting;
mod device;
mod disk_offsets;
mod facts;
mod family;
mod faults;
mod hooks;
mod log;
mod object;
mod observed;
mod observed_offsets;
mod offsets;
mod plan;
mod pressure;
mod report;
mod ring;
mod run_stats;
mod sides;
mod slots;
mod symbols;
mod vigil;

pub use attach::{AttachOptions, Attached, SlotError, SuspendError};
pub use eviction_ebpf::abi::{Event, Kind, Rung, Stall, UnknownRung};
pub use facts::{Capabilities, Facts, FactsOptions, Function, Hierarchy, HugePages, Lockdown};
pub use family::Family;
pub use faults::FaultError;
pub use log::{LogError, LogReader};
pub use object::BUILT;
pub use observed::CgroupFeed;
pub use observed_offsets::{CgroupOffsets, VictimOffsets};
pub use offsets::{
    BtfError, FolioOffsets, FolioSizeKind, InodeOffsets, MemcgOffsets, NodeOffsets, Offsets,
    TaskOffsets, check_btf,
};
pub use plan::{Candidate, Plan, Reason, Step, plan};
pub use pressure::{KernelEvents, OpenError, Wanted, WantedDevice};
pub use report::{Exclusion, Failure, HookReport, Report, Standing};
pub use ring::{DropCounts, Events, RingError};
pub use run_stats::{ProgramRuns, RunStats};
pub use sides::{KernelSides, SidesError};
pub use slots::{Armed, Credit, Mark, ShareError, SlotHandle};
