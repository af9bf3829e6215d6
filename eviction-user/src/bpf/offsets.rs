//! Where things lie in this kernel's structures, read from BTF. aya-ebpf has no field relocations, so the programs get
//! these numbers as globals. What BTF does not tell stays unknown, and the programs do without it.

mod node;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use btf_rs::{Btf, BtfType, Type};
use eviction_ebpf::abi::{FolioSize, names::global};
use serde::{Deserialize, Serialize};

pub use node::NodeOffsets;

use super::{
    disk_offsets,
    observed_offsets::{CgroupOffsets, VictimOffsets},
};

pub(super) const VMLINUX_BTF: &str = "/sys/kernel/btf/vmlinux";

#[derive(Debug, thiserror::Error)]
pub enum BtfError {
    #[error("{path} cannot be read as BTF: {source}")]
    Unreadable {
        path: PathBuf,
        source: btf_rs::Error,
    },
}

/// Offsets in bytes. A group is known as a whole or not at all.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offsets {
    pub memcg: Option<MemcgOffsets>,
    pub task: Option<TaskOffsets>,
    pub inode: Option<InodeOffsets>,
    /// Position of the inode among the arguments of `inode_init_owner`.
    pub inode_arg: Option<u32>,
    pub folio: Option<FolioOffsets>,
    #[serde(default)]
    pub victim: Option<VictimOffsets>,
    #[serde(default)]
    pub cgroup: Option<CgroupOffsets>,
    /// What the hooks of file systems need, by the global that takes it.
    #[serde(default)]
    pub disk: BTreeMap<String, u32>,
    #[serde(default)]
    pub node: Option<NodeOffsets>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MemcgOffsets {
    pub css_cgroup: u32,
    pub css_parent: u32,
    pub cgroup_kn: u32,
    pub cgroup_memory: u32,
    pub kn_id: u32,
    pub counter_from_css: u32,
    pub counter_usage: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskOffsets {
    pub task_cgroups: u32,
    pub css_set_memory: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct InodeOffsets {
    pub inode_sb: u32,
    pub sb_dev: u32,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FolioOffsets {
    pub flags: u32,
    pub head_bit: u32,
    /// Offset, and how to read it; unknown where large folios have their size in another page's structure.
    pub size: Option<(u32, FolioSizeKind)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FolioSizeKind {
    Pages,
    OrderInFlags,
    Order,
}

impl From<FolioSizeKind> for FolioSize {
    fn from(kind: FolioSizeKind) -> Self {
        match kind {
            FolioSizeKind::Pages => Self::Pages,
            FolioSizeKind::OrderInFlags => Self::OrderInFlags,
            FolioSizeKind::Order => Self::Order,
        }
    }
}

impl Offsets {
    /// The globals to set; those left out keep their default, "unknown". `one_node`: this machine has one NUMA node.
    pub fn globals(&self, one_node: bool) -> Vec<(&'static str, u32)> {
        let mut globals = Vec::new();
        if let Some(node) = &self.node {
            globals.extend(node.globals(one_node));
        }
        if let Some(memcg) = &self.memcg {
            globals.extend([
                (global::CSS_CGROUP, memcg.css_cgroup),
                (global::CSS_PARENT, memcg.css_parent),
                (global::CGROUP_KN, memcg.cgroup_kn),
                (global::CGROUP_MEMORY, memcg.cgroup_memory),
                (global::KN_ID, memcg.kn_id),
                (global::COUNTER_FROM_CSS, memcg.counter_from_css),
                (global::COUNTER_USAGE, memcg.counter_usage),
            ]);
            // Without the way up from a css, knowing a task's css is of no use.
            if let Some(task) = &self.task {
                globals.extend([
                    (global::TASK_CGROUPS, task.task_cgroups),
                    (global::CSS_SET_MEMORY, task.css_set_memory),
                ]);
            }
        }
        globals.extend(self.victim.iter().flat_map(VictimOffsets::globals));
        globals.extend(self.cgroup.iter().flat_map(CgroupOffsets::globals));
        if let Some(inode) = &self.inode {
            globals.extend([
                (global::INODE_SB, inode.inode_sb),
                (global::SB_DEV, inode.sb_dev),
            ]);
        }
        globals.extend(self.inode_arg.map(|index| (global::INODE_ARG, index)));
        globals.extend(disk_offsets::globals(&self.disk));
        if let Some(folio) = &self.folio {
            globals.extend([
                (global::FOLIO_FLAGS, folio.flags),
                (global::HEAD_BIT, folio.head_bit),
            ]);
            if let Some((offset, kind)) = folio.size {
                globals.extend([
                    (global::FOLIO_SIZE, offset),
                    (global::FOLIO_SIZE_KIND, FolioSize::from(kind) as u32),
                ]);
            }
        }
        globals
    }
}

/// The kernel's type information, with questions to it that have "no" as an answer.
pub(super) struct KernelTypes {
    pub(super) btf: Btf,
    /// File systems are modules on most distributions: their types are in files of their own once they are loaded.
    modules: Vec<Btf>,
}

/// Whether this is a file of kernel types.
pub fn check_btf(path: &Path) -> Result<(), BtfError> {
    KernelTypes::read(path).map(drop)
}

impl KernelTypes {
    pub(super) fn read(path: &Path) -> Result<Self, BtfError> {
        let btf = Btf::from_file(path).map_err(|source| BtfError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let modules = ["ext4", "xfs", "btrfs"]
            .into_iter()
            .filter_map(|module| Btf::from_split_file(path.with_file_name(module), &btf).ok())
            .collect();
        Ok(Self { btf, modules })
    }

    pub(super) fn has_function(&self, name: &str) -> bool {
        self.types(name).any(|kind| matches!(kind, Type::Func(_)))
    }

    /// Whether a tracepoint of that name is compiled in: each leaves a type `btf_trace_NAME`.
    pub(super) fn has_tracepoint(&self, name: &str) -> bool {
        self.types(&format!("btf_trace_{name}"))
            .any(|kind| matches!(kind, Type::Typedef(_)))
    }

    pub(super) fn offsets(&self) -> Offsets {
        Offsets {
            memcg: self.memcg(),
            task: self.task(),
            inode: self.inode(),
            inode_arg: self.argument_of_type("inode_init_owner", "inode"),
            folio: self.folio(),
            victim: self.victim(),
            cgroup: self.cgroup(),
            disk: disk_offsets::find(self),
            node: self.node(),
        }
    }

    fn memcg(&self) -> Option<MemcgOffsets> {
        let css = self.offset("mem_cgroup", "css")?;
        Some(MemcgOffsets {
            css_cgroup: self.offset("cgroup_subsys_state", "cgroup")?,
            css_parent: self.offset("cgroup_subsys_state", "parent")?,
            cgroup_kn: self.offset("cgroup", "kn")?,
            cgroup_memory: self.offset("cgroup", "subsys")? + self.memory_index()?,
            kn_id: self.offset("kernfs_node", "id")?,
            counter_from_css: self.offset("mem_cgroup", "memory")?.checked_sub(css)?,
            counter_usage: self.offset("page_counter", "usage")?,
        })
    }

    fn task(&self) -> Option<TaskOffsets> {
        Some(TaskOffsets {
            task_cgroups: self.offset("task_struct", "cgroups")?,
            css_set_memory: self.offset("css_set", "subsys")? + self.memory_index()?,
        })
    }

    /// The memory controller's place in an array of pointers.
    fn memory_index(&self) -> Option<u32> {
        Some(self.enum_value("cgroup_subsys_id", "memory_cgrp_id")? * size_of::<u64>() as u32)
    }

    fn inode(&self) -> Option<InodeOffsets> {
        Some(InodeOffsets {
            inode_sb: self.offset("inode", "i_sb")?,
            sb_dev: self.offset("super_block", "s_dev")?,
        })
    }

    fn folio(&self) -> Option<FolioOffsets> {
        let of_folio = |name| self.offset("folio", name);
        // 6.15+, up to 6.14; then the order, in a byte of its own up to 6.5 and in a flags word from 6.6.
        let size = [
            ("_nr_pages", FolioSizeKind::Pages),
            ("_folio_nr_pages", FolioSizeKind::Pages),
            ("_folio_order", FolioSizeKind::Order),
            ("_flags_1", FolioSizeKind::OrderInFlags),
        ]
        .into_iter()
        .find_map(|(field, kind)| Some((of_folio(field)?, kind)));
        Some(FolioOffsets {
            flags: of_folio("flags").or_else(|| self.offset("page", "flags"))?,
            head_bit: self.enum_value("pageflags", "PG_head")?,
            size,
        })
    }

    pub(super) fn offset(&self, structure: &str, member: &str) -> Option<u32> {
        std::iter::once(&self.btf)
            .chain(&self.modules)
            .find_map(|btf| offset_in(btf, structure, member))
    }

    /// How many arguments a tracepoint hands over.
    pub(super) fn tracepoint_arguments(&self, name: &str) -> Option<u32> {
        let name = format!("btf_trace_{name}");
        std::iter::once(&self.btf)
            .chain(&self.modules)
            .find_map(|btf| {
                let mut types = btf.resolve_types_by_name(&name).ok()?.into_iter();
                let Type::Typedef(callback) = types.find(|t| matches!(t, Type::Typedef(_)))? else {
                    return None;
                };
                let Type::Ptr(pointer) = btf.resolve_chained_type(&callback).ok()? else {
                    return None;
                };
                let Type::FuncProto(prototype) = btf.resolve_chained_type(&pointer).ok()? else {
                    return None;
                };
                // The first one is the tracepoint's own data.
                u32::try_from(prototype.parameters.len())
                    .ok()?
                    .checked_sub(1)
            })
    }

    fn enum_value(&self, name: &str, variant: &str) -> Option<u32> {
        self.types(name).find_map(|kind| {
            let Type::Enum(list) = kind else { return None };
            list.members
                .iter()
                .find(|member| {
                    self.btf
                        .resolve_name(*member)
                        .is_ok_and(|name| name == variant)
                })
                .map(|member| member.val())
        })
    }

    /// The position of the first argument of `function` that is a pointer to `structure`.
    fn argument_of_type(&self, function: &str, structure: &str) -> Option<u32> {
        let function = self.types(function).find_map(|kind| match kind {
            Type::Func(function) => Some(function),
            _ => None,
        })?;
        let Type::FuncProto(prototype) = self.btf.resolve_chained_type(&function).ok()? else {
            return None;
        };
        let position = prototype.parameters.iter().position(|parameter| {
            self.btf.resolve_chained_type(parameter).is_ok_and(|kind| {
                matches!(&kind, Type::Ptr(pointer) if named_struct(&self.btf, pointer).is_some_and(|name| name == structure))
            })
        })?;
        u32::try_from(position).ok()
    }

    pub(super) fn types(&self, name: &str) -> impl Iterator<Item = Type> {
        self.btf
            .resolve_types_by_name(name)
            .unwrap_or_default()
            .into_iter()
    }
}

/// The name of the structure a pointer leads to, through qualifiers.
fn named_struct(btf: &Btf, pointer: &dyn BtfType) -> Option<String> {
    match peel(btf, btf.resolve_chained_type(pointer).ok()?)? {
        Type::Struct(structure) => btf.resolve_name(&structure).ok(),
        _ => None,
    }
}

fn offset_in(btf: &Btf, structure: &str, member: &str) -> Option<u32> {
    btf.resolve_types_by_name(structure)
        .ok()?
        .into_iter()
        .find_map(|kind| bit_offset(btf, &kind, member))
        .map(|bits| bits / 8)
}

/// Looks through anonymous structs and unions, which C treats as if their members were the outer one's.
fn bit_offset(btf: &Btf, kind: &Type, wanted: &str) -> Option<u32> {
    let (Type::Struct(outer) | Type::Union(outer)) = kind else {
        return None;
    };
    outer.members.iter().find_map(|member| {
        let name = btf.resolve_name(member).unwrap_or_default();
        if name == wanted {
            return Some(member.bit_offset());
        }
        let inner = if name.is_empty() {
            peel(btf, btf.resolve_chained_type(member).ok()?)?
        } else {
            return None;
        };
        Some(member.bit_offset() + bit_offset(btf, &inner, wanted)?)
    })
}

/// Removes typedefs and qualifiers.
fn peel(btf: &Btf, kind: Type) -> Option<Type> {
    match &kind {
        Type::Typedef(inner) => peel(btf, btf.resolve_chained_type(inner).ok()?),
        Type::Const(inner) => peel(btf, btf.resolve_chained_type(inner).ok()?),
        Type::Volatile(inner) => peel(btf, btf.resolve_chained_type(inner).ok()?),
        _ => Some(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_tells_where_the_memory_cgroup_is() {
        let types = match KernelTypes::read(Path::new(VMLINUX_BTF)) {
            Ok(types) => types,
            Err(error) => return println!("skipped: {error}"),
        };
        let offsets = types.offsets();
        let memcg = offsets.memcg.as_ref().unwrap();
        assert!(memcg.counter_from_css > memcg.css_parent, "{memcg:?}");
        assert!(
            offsets.task.is_some() && offsets.inode.is_some() && offsets.folio.is_some(),
            "{offsets:?}"
        );
        assert!(
            offsets.inode_arg.is_some_and(|index| index < 2),
            "{offsets:?}"
        );
        assert!(types.has_function("page_counter_try_charge"));
        assert!(types.has_tracepoint("mm_page_alloc"));
        assert!(
            !types.has_tracepoint("no_such_tracepoint") && !types.has_function("no_such_function")
        );
    }

    #[test]
    fn unknown_groups_set_no_global() {
        assert!(Offsets::default().globals(true).is_empty());
        let task = Some(TaskOffsets {
            task_cgroups: 1,
            css_set_memory: 2,
        });
        assert!(
            Offsets {
                task,
                ..Offsets::default()
            }
            .globals(true)
            .is_empty()
        );
        let inode = Some(InodeOffsets {
            inode_sb: 40,
            sb_dev: 16,
        });
        let globals = Offsets {
            inode,
            ..Offsets::default()
        }
        .globals(true);
        assert_eq!(globals, [(global::INODE_SB, 40), (global::SB_DEV, 16)]);
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = KernelTypes::read(Path::new("/nonexistent/btf"))
            .err()
            .unwrap();
        assert!(
            error
                .to_string()
                .starts_with("/nonexistent/btf cannot be read"),
            "{error}"
        );
    }
}
