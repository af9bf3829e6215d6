//! Where the kubelet keeps its pods' cgroups.

use crate::sys::cgroup::{CgroupDir, Hierarchy};
use std::path::PathBuf;

/// By either driver, with the kubelet's `cgroupRoot` at the top.
const NAMES: [&str; 2] = ["kubepods", "kubepods.slice"];

/// The one that is there; `None` where no kubelet runs, or it has another `cgroupRoot`.
pub fn pods_root(hierarchy: &Hierarchy) -> Option<PathBuf> {
    let found = NAMES.map(|name| hierarchy.mount.join(name));
    found.into_iter().find(|path| CgroupDir::open(path).is_ok())
}
