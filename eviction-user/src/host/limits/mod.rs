//! Workloads with limits of their own on what they hold on disks. How near they are is measured by walking their directories
//! (`meter`); when to walk them again is told by what the kernel has counted since (`watch`). Nobody is judged by a counter:
//! only what was found on the disk says that a limit is broken.

mod meter;
mod part;
mod watch;

pub use meter::{LimitedNow, Meter};
pub use part::{Limited, LimitedPart};
pub(super) use watch::LimitPlace;
pub use watch::LimitWatch;
