//! What the programs that only tell of things need to know of this kernel's structures.

use btf_rs::{BtfType, Type};
use eviction_ebpf::abi::names::global;
use serde::{Deserialize, Serialize};

use super::offsets::KernelTypes;

/// For OOM victims: what the tracepoint `mark_victim` hands over.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct VictimOffsets {
    /// The task; otherwise its pid alone.
    pub is_task: bool,
    pub task_tgid: u32,
}

/// For cgroups that come and go.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CgroupOffsets {
    pub cgroup_root: u32,
    pub root_hierarchy: u32,
    pub kn_parent: u32,
    pub kn_name: u32,
}

impl VictimOffsets {
    pub(super) fn globals(&self) -> [(&'static str, u32); 2] {
        [
            (global::VICTIM_IS_TASK, self.is_task.into()),
            (global::TASK_TGID, self.task_tgid),
        ]
    }
}

impl CgroupOffsets {
    pub(super) fn globals(&self) -> [(&'static str, u32); 4] {
        [
            (global::CGROUP_ROOT, self.cgroup_root),
            (global::ROOT_HIERARCHY, self.root_hierarchy),
            (global::KN_PARENT, self.kn_parent),
            (global::KN_NAME, self.kn_name),
        ]
    }
}

impl KernelTypes {
    pub(super) fn victim(&self) -> Option<VictimOffsets> {
        Some(VictimOffsets {
            is_task: self.tracepoint_takes_pointer("mark_victim")?,
            task_tgid: self.offset("task_struct", "tgid")?,
        })
    }

    pub(super) fn cgroup(&self) -> Option<CgroupOffsets> {
        let node = |name| self.offset("kernfs_node", name);
        Some(CgroupOffsets {
            cgroup_root: self.offset("cgroup", "root")?,
            root_hierarchy: self.offset("cgroup_root", "hierarchy_id")?,
            // Renamed in 6.15, when it came under RCU.
            kn_parent: node("__parent").or_else(|| node("parent"))?,
            kn_name: node("name")?,
        })
    }

    /// Whether a tracepoint's first own argument is a pointer. `btf_trace_NAME` is a pointer to a function whose first
    /// argument is the tracer's own.
    fn tracepoint_takes_pointer(&self, name: &str) -> Option<bool> {
        let typedef = self
            .types(&format!("btf_trace_{name}"))
            .find_map(|kind| match kind {
                Type::Typedef(typedef) => Some(typedef),
                _ => None,
            })?;
        let Type::Ptr(pointer) = self.chained(&typedef)? else {
            return None;
        };
        let Type::FuncProto(prototype) = self.chained(&pointer)? else {
            return None;
        };
        let first = self.chained(prototype.parameters.get(1)?)?;
        Some(matches!(first, Type::Ptr(_)))
    }

    fn chained(&self, kind: &dyn BtfType) -> Option<Type> {
        self.btf.resolve_chained_type(kind).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::offsets::VMLINUX_BTF;
    use super::*;

    #[test]
    fn this_kernel_tells_what_its_tracepoints_hand_over() {
        let types = match KernelTypes::read(Path::new(VMLINUX_BTF)) {
            Ok(types) => types,
            Err(error) => return println!("skipped: {error}"),
        };
        let victim = types.victim().unwrap();
        assert!(victim.task_tgid > 0, "{victim:?}");
        assert_eq!(types.tracepoint_takes_pointer("cgroup_mkdir"), Some(true));
        // Its first argument is the order of the allocation, or flags.
        let begin = "mm_vmscan_direct_reclaim_begin";
        assert_eq!(types.tracepoint_takes_pointer(begin), Some(false));
        assert_eq!(types.tracepoint_takes_pointer("no_such_tracepoint"), None);
        let cgroup = types.cgroup().unwrap();
        assert_ne!(cgroup.kn_parent, cgroup.kn_name, "{cgroup:?}");
    }
}
