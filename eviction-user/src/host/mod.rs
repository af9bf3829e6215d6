//! What every node has, with Kubernetes or without: its figures, and cgroups that can be killed. Without it the workloads are
//! the child cgroups of one given cgroup.

mod children;
mod disk_use;
mod executor;
mod file_systems;
mod following;
mod guard_figures;
mod held;
mod inventory;
pub mod kill;
mod limits;
mod member;
mod notices;
mod own;
mod owner;
mod reap;
mod reclaim;
mod scan;
mod workload;

pub use children::Children;
pub use disk_use::DiskUses;
pub use executor::CgroupExecutor;
pub use file_systems::{Devices, FileSystems};
pub use guard_figures::GuardsAsked;
pub use held::{Held, as_container};
pub use inventory::{NodeInventory, Scan, Watched, WorkloadCgroups, Workloads};
pub use limits::{LimitWatch, Limited, LimitedNow, LimitedPart, Meter};
pub use member::Reading;
pub use notices::Notices;
pub use own::Untouchable;
pub use owner::{Answer, HostOwner, Owner};
pub use reclaim::{CommandReclaim, ReclaimCommand};
pub use scan::{ScanResult, ScanTarget, Scanner, Share, Targets};
pub use workload::{WorkloadSpec, WorkloadSpecError};
