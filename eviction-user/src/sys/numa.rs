//! NUMA nodes, and how far the kernel's per-node counters may lag behind.

use serde::{Deserialize, Serialize};
use std::path::Path;

/// The kernel never lets a CPU hold back more (`calculate_normal_threshold()`, 5.10 to 7.3).
const MOST_HELD_BACK: u32 = 125;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Ids up to the highest that may come to be.
    pub nodes: u32,
    /// Pages of one item that one CPU may hold back of a node's counter. It depends on the size of the zones and the number of
    /// CPUs, and changes only when one of them comes or goes.
    pub held_back: u32,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            nodes: 1,
            held_back: MOST_HELD_BACK,
        }
    }
}

impl Facts {
    /// What cannot be read is taken at its worst.
    pub fn gather(proc: &Path, sys: &Path) -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        Self {
            // A kernel without NUMA has no such file, and one node.
            nodes: highest(&read(&sys.join("devices/system/node/possible"))).unwrap_or(0) + 1,
            held_back: threshold(&read(&proc.join("zoneinfo"))).unwrap_or(MOST_HELD_BACK),
        }
    }
}

/// The last number of a list such as `0-3,8`.
fn highest(list: &str) -> Option<u32> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

/// A node's threshold is the highest of its zones' (`refresh_zone_stat_thresholds()`); zoneinfo shows them per CPU.
fn threshold(zoneinfo: &str) -> Option<u32> {
    let lines = zoneinfo.lines();
    lines
        .filter_map(|line| line.trim().strip_prefix("vm stats threshold:"))
        .filter_map(|number| number.trim().parse().ok())
        .max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_node_counts() {
        let table = [("0", 0), ("0-1", 1), ("0-3,8", 8)];
        for (list, expected) in table {
            assert_eq!(highest(list), Some(expected), "{list}");
        }
        assert_eq!(highest(""), None);
    }

    #[test]
    fn the_highest_zone_s_threshold_counts() {
        // From a 6.12 guest with 1 GiB and two CPUs.
        let zoneinfo = "Node 0, zone      DMA\n  pagesets\n    cpu: 0\n              count: 0\n\
                        \x20 vm stats threshold: 4\n    cpu: 1\n  vm stats threshold: 4\n\
                        Node 0, zone    DMA32\n    cpu: 0\n  vm stats threshold: 20\n";
        assert_eq!(threshold(zoneinfo), Some(20));
        assert_eq!(threshold("Node 0, zone DMA\n"), None);
    }

    #[test]
    fn what_cannot_be_read_is_taken_at_its_worst() {
        let nowhere = Path::new("/nonexistent");
        assert_eq!(Facts::gather(nowhere, nowhere), Facts::default());
    }
}
