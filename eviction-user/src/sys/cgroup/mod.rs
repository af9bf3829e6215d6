//! cgroup v1 and v2: where the memory hierarchy lies, its directories, its memory figures.

mod directory;
mod dying;
mod file_pages;
mod hierarchy;
mod index;
mod memory;
mod names;
mod oom;
pub mod parse;
mod walk;

pub use directory::{CgroupDir, CgroupError};
pub use dying::DyingCgroups;
pub use file_pages::FilePages;
pub use hierarchy::{Hierarchy, Version};
pub use index::{CgroupIndex, Change};
pub use memory::{
    GroupMemory, GroupMemoryReader, GroupUseReader, PAGE_SIZE, oom_kills, protected_memory,
    usage_file,
};
pub use names::{CgroupNames, ChangeFeed};
pub use oom::{NODE, node_oom_kills, oom_counts};
pub use walk::subtree;
