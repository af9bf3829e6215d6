//! Cgroups that come and go, in the hierarchy of the memory controller.

use aya_ebpf::{macros::raw_tracepoint, programs::RawTracePointContext};

use crate::{
    hierarchy::{KernfsNode, is_of_memory_hierarchy},
    observed,
};

/// `cgroup_mkdir(cgroup, path)`
#[raw_tracepoint(tracepoint = "cgroup_mkdir")]
pub(crate) fn ev_cgroup_made(ctx: RawTracePointContext) -> i32 {
    changed(ctx.arg(0), true)
}

/// `cgroup_rmdir(cgroup, path)`
#[raw_tracepoint(tracepoint = "cgroup_rmdir")]
pub(crate) fn ev_cgroup_gone(ctx: RawTracePointContext) -> i32 {
    changed(ctx.arg(0), false)
}

fn changed(cgroup: u64, made: bool) -> i32 {
    if is_of_memory_hierarchy(cgroup) {
        observed::cgroup_changed(KernfsNode::of(cgroup), made);
    }
    0
}
