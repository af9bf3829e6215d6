//! Where the node's own counters lie.

use btf_rs::Type;
use eviction_ebpf::abi::names::global;
use serde::{Deserialize, Serialize};

use super::{KernelTypes, peel};

/// Offsets in bytes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeOffsets {
    /// Of the items among the counters.
    pub anon: u32,
    pub file: u32,
    pub inactive_file: u32,
    /// From a memory css to the counters of the first NUMA node, for kernels that hide `vm_node_stat`.
    pub css_node_info: u32,
    pub node_info_pgdat: u32,
    pub pgdat_stats: u32,
    /// Memcgs that each CPU's stock has room for.
    pub stocks: u32,
}

impl NodeOffsets {
    /// `through_css`: the way from a css leads to all the counters there are.
    pub(super) fn globals(&self, through_css: bool) -> Vec<(&'static str, u32)> {
        let mut globals = vec![
            (global::STAT_ANON, self.anon),
            (global::STAT_FILE, self.file),
            (global::STAT_INACTIVE_FILE, self.inactive_file),
        ];
        if through_css {
            globals.extend([
                (global::CSS_NODE_INFO, self.css_node_info),
                (global::NODE_INFO_PGDAT, self.node_info_pgdat),
                (global::PGDAT_STATS, self.pgdat_stats),
            ]);
        }
        globals
    }
}

impl KernelTypes {
    pub(super) fn node(&self) -> Option<NodeOffsets> {
        let item = |name| Some(self.enum_value("node_stat_item", name)? * size_of::<u64>() as u32);
        let lruvec = self.offset("mem_cgroup_per_node", "lruvec")?;
        Some(NodeOffsets {
            anon: item("NR_ANON_MAPPED")?,
            file: item("NR_FILE_PAGES")?,
            inactive_file: item("NR_INACTIVE_FILE")?,
            css_node_info: self
                .offset("mem_cgroup", "nodeinfo")?
                .checked_sub(self.offset("mem_cgroup", "css")?)?,
            node_info_pgdat: lruvec + self.offset("lruvec", "pgdat")?,
            pgdat_stats: self.offset("pglist_data", "vm_stat")?,
            stocks: self.stocks(),
        })
    }

    /// `memcg_stock_pcp.cached` is one pointer, or from 6.16 on an array of them.
    fn stocks(&self) -> u32 {
        let member = self.member_type("memcg_stock_pcp", "cached");
        match member.and_then(|kind| peel(&self.btf, kind)) {
            Some(Type::Array(array)) => u32::try_from(array.len()).unwrap_or(u32::MAX),
            _ => 1,
        }
    }

    fn member_type(&self, structure: &str, wanted: &str) -> Option<Type> {
        self.types(structure).find_map(|kind| {
            let Type::Struct(outer) = kind else {
                return None;
            };
            let mut members = outer.members.iter();
            let member = members.find(|member| {
                self.btf
                    .resolve_name(*member)
                    .is_ok_and(|name| name == wanted)
            })?;
            self.btf.resolve_chained_type(member).ok()
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{KernelTypes, VMLINUX_BTF};

    #[test]
    fn this_kernel_tells_where_the_node_s_counters_are() {
        let types = match KernelTypes::read(Path::new(VMLINUX_BTF)) {
            Ok(types) => types,
            Err(error) => return println!("skipped: {error}"),
        };
        let node = types.node().unwrap();
        assert!(
            node.anon != node.file && node.inactive_file % 8 == 0,
            "{node:?}"
        );
        assert!([1, 7].contains(&node.stocks), "{node:?}");
        assert!(node.css_node_info > 0 && node.pgdat_stats > 0, "{node:?}");
    }
}
