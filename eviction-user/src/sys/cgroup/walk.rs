//! A cgroup with all that lies below it.

use super::CgroupDir;

/// `top` first, then its descendants, parents before children.
pub fn subtree(top: &CgroupDir) -> Vec<CgroupDir> {
    let mut found = vec![top.clone()];
    let mut next = 0;
    while let Some(group) = found.get(next) {
        let children = group.children();
        found.extend(children);
        next += 1;
    }
    found
}
