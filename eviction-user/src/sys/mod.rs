//! What the kernel says about this machine: cgroups, /proc, file systems, the clock.
//! Pure parsers stand apart from the readers that feed them.

pub mod background;
pub mod causes;
pub mod cgroup;
pub mod clock;
pub mod distant;
pub mod fault;
pub mod filesystem;
pub mod heap;
pub mod meminfo;
pub mod mount;
pub mod mount_table;
pub mod node_memory;
pub mod node_tasks;
pub mod notification;
pub mod numa;
pub mod pidfd;
pub mod pressure;
pub mod process_root;
pub mod reader;
pub mod realtime;
#[cfg(test)]
mod recorded;
pub mod trust;
mod xfs;
