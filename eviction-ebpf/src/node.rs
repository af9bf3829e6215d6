//! The node's own counters: what the kubelet's `memory.available` is made of, as fresh as the kernel has it. The same items
//! of the root `memory.stat` are summed up lazily and lag by seconds (rstat, 5.13 and later).

use crate::{
    globals::{
        CSS_NODE_INFO, NODE_INFO_PGDAT, NODE_STATS, PGDAT_STATS, STAT_ANON, STAT_FILE,
        STAT_INACTIVE_FILE,
    },
    hierarchy::{Css, NOT_READ},
    reading::word,
};
use eviction_ebpf::abi::UNKNOWN;

/// Anonymous and file pages less the inactive file pages, of all NUMA nodes; [`NOT_READ`] if they cannot be read. `css` is
/// any memory css: where the symbol `vm_node_stat` is not known, it leads to the only NUMA node.
pub(crate) fn working_set(css: Css) -> u64 {
    let stats = counters(css);
    if stats == 0 || STAT_ANON.load() == UNKNOWN {
        return NOT_READ;
    }
    // The one that is taken off is read first: what comes in between the reads then counts as used.
    let inactive = word(stats, STAT_INACTIVE_FILE.load(), NOT_READ);
    let anon = word(stats, STAT_ANON.load(), NOT_READ);
    let file = word(stats, STAT_FILE.load(), NOT_READ);
    if inactive == NOT_READ || anon == NOT_READ || file == NOT_READ {
        return NOT_READ;
    }
    let sum = anon.wrapping_add(file).wrapping_sub(inactive);
    // Each may be below zero for a moment while CPUs hold back their shares.
    if sum > i64::MAX as u64 { 0 } else { sum }
}

/// Where the counters lie, 0 if unknown. `lruvec.pgdat` is set when a memcg gets its first page on the node
/// (`mem_cgroup_lruvec()`), so it may be missing for a new memcg: its charge then goes uncompared.
fn counters(css: Css) -> u64 {
    if NODE_STATS.load() != 0 {
        return NODE_STATS.load();
    }
    if CSS_NODE_INFO.load() == UNKNOWN || css == 0 {
        return 0;
    }
    let info = word(css, CSS_NODE_INFO.load(), 0);
    let node = word(info, NODE_INFO_PGDAT.load(), 0);
    if node == 0 {
        return 0;
    }
    node + u64::from(PGDAT_STATS.load())
}
