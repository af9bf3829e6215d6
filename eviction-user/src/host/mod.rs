//! A host without Kubernetes: the workloads are the child cgroups of one given cgroup.

mod disk_use;
mod executor;
mod file_systems;
mod following;
mod guard_figures;
mod inventory;
pub mod kill;
mod member;
mod notices;
mod own;
mod reap;
mod reclaim;
mod scan;
mod workload;

pub use executor::HostExecutor;
pub use file_systems::FileSystems;
pub use guard_figures::GuardsAsked;
pub use inventory::{HostInventory, Scan, Watched};
pub use notices::Notices;
pub use reclaim::ReclaimCommand;
pub use scan::{ScanResult, ScanTarget, Scanner};
pub use workload::{WorkloadSpec, WorkloadSpecError};
