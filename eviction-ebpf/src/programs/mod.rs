//! One function per hook: take the arguments, say what is being used up, and spend it.

mod bytes;
mod cgroup;
mod charge;
mod fork;
mod inode;
mod oom;
mod reclaim;
