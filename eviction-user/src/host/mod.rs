//! A host without Kubernetes: the workloads are the child cgroups of one given cgroup.

mod executor;
mod guard_figures;
mod inventory;
pub mod kill;
mod own;
mod reap;
mod scan;
mod workload;

pub use executor::HostExecutor;
pub use inventory::HostInventory;
pub use scan::DirectoryScan;
pub use workload::{WorkloadSpec, WorkloadSpecError};
