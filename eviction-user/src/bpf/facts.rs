//! What this node offers to eBPF: plain data, gathered once. [`super::plan`] draws the conclusions.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use caps::{CapSet, Capability};
use serde::{Deserialize, Serialize};

use super::{
    object,
    offsets::{BtfError, KernelTypes, Offsets, VMLINUX_BTF},
    symbols::Symbols,
};
use crate::sys::numa;
use eviction_ebpf::credit::NodeLag;

/// Functions that programs attach to.
pub(super) const FUNCTIONS: [&str; 21] = [
    "page_counter_try_charge",
    "inode_init_owner",
    "clear_inode",
    "security_sb_statfs",
    "ext4_claim_free_clusters",
    "ext4_mb_new_blocks",
    "ext4_da_release_space",
    "ext4_free_blocks",
    "ext4_da_update_reserve_space",
    "xfs_mod_fdblocks",
    "xfs_mod_freecounter",
    "xfs_dec_freecounter",
    "xfs_add_freecounter",
    "btrfs_reserve_data_bytes",
    "btrfs_free_reserved_data_space_noquota",
    "shmem_alloc_and_acct_page",
    "shmem_alloc_and_acct_folio",
    "shmem_inode_acct_blocks",
    "shmem_inode_unacct_blocks",
    "generic_write_checks",
    "vfs_fallocate",
];
/// Tracepoints that programs attach to.
pub(super) const TRACEPOINTS: [&str; 24] = [
    "mm_filemap_add_to_page_cache",
    "mm_page_alloc",
    "ext4_allocate_inode",
    "xfs_create",
    "xfs_symlink",
    "btrfs_inode_new",
    "task_newtask",
    "mark_victim",
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_memcg_reclaim_begin",
    "cgroup_mkdir",
    "cgroup_rmdir",
    "btrfs_inode_evict",
    "btrfs_reserved_extent_alloc",
    "btrfs_chunk_alloc",
    "ext4_free_inode",
    "ext4_da_reserve_space",
    "ext4_allocate_blocks",
    "ext4_da_release_space",
    "ext4_free_blocks",
    "xfs_trans_commit",
    "xfs_iomap_alloc",
    "writeback_dirty_folio",
    "writeback_dirty_page",
];

/// Where to look. The default is the running system; tests and `--btf` point elsewhere.
#[derive(Clone, Debug)]
pub struct FactsOptions {
    pub btf: PathBuf,
    pub proc: PathBuf,
    pub sys: PathBuf,
}

impl Default for FactsOptions {
    fn default() -> Self {
        Self {
            btf: VMLINUX_BTF.into(),
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Whether the program carries its eBPF object.
    pub built: bool,
    pub kernel: String,
    pub cpus: u32,
    /// Why BTF cannot be used, if so.
    pub btf_error: Option<String>,
    pub offsets: Offsets,
    pub functions: BTreeMap<String, Function>,
    /// Specialised copies that the compiler made of them (`.isra`, `.constprop`), to be attached to as well.
    #[serde(default)]
    pub copies: BTreeMap<String, Vec<String>>,
    pub tracepoints: BTreeSet<String>,
    /// Whether the kernel was built with kprobes (their perf device exists).
    pub kprobes: bool,
    pub perf_event_paranoid: Option<i32>,
    pub memory_hierarchy: Hierarchy,
    /// Its number in `/proc/cgroups`, 0 for cgroup v2.
    #[serde(default)]
    pub memory_hierarchy_id: u32,
    pub huge_pages: HugePages,
    pub lockdown: Lockdown,
    pub capabilities: Capabilities,
    #[serde(default)]
    pub numa: numa::Facts,
    /// The address of `vm_node_stat`; says where the kernel lies, so it is told to nobody.
    #[serde(skip)]
    pub node_stats: Option<u64>,
    /// Whether tracefs is mounted. Nothing here needs it; it helps when debugging.
    pub tracefs: bool,
}

/// What is known of a kernel function.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Function {
    pub symbol: bool,
    pub btf: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hierarchy {
    V1,
    V2,
    None,
}

/// The mode of transparent huge pages. Anything but `Never` means that one fault may bring in 512 pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HugePages {
    Always,
    Madvise,
    Never,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lockdown {
    None,
    Integrity,
    Confidentiality,
    /// securityfs is not mounted, or the kernel has no lockdown.
    Unknown,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Capabilities {
    pub bpf: bool,
    pub perfmon: bool,
    pub sys_admin: bool,
    pub sys_resource: bool,
}

impl Facts {
    /// Never fails: what cannot be read is a fact, too.
    pub fn gather(options: &FactsOptions) -> Self {
        let types = KernelTypes::read(&options.btf);
        let symbols = Symbols::read(&options.proc.join("kallsyms"), &wanted_symbols());
        let functions = FUNCTIONS
            .into_iter()
            .map(|name| (name.to_owned(), function(name, &types, &symbols)));
        let tracepoints = TRACEPOINTS
            .into_iter()
            .filter(|name| tracepoint(name, &types, &symbols));
        let cgroups = read(&options.proc.join("cgroups")).unwrap_or_default();
        Self {
            built: object::BUILT,
            kernel: read(&options.proc.join("sys/kernel/osrelease")).unwrap_or_default(),
            cpus: aya::util::online_cpus().map_or(1, |list| list.len() as u32),
            btf_error: types.as_ref().err().map(ToString::to_string),
            offsets: types
                .as_ref()
                .map_or_else(|_| Offsets::default(), KernelTypes::offsets),
            functions: functions.collect(),
            copies: symbols.copies.clone(),
            tracepoints: tracepoints.map(str::to_owned).collect(),
            kprobes: options.sys.join("bus/event_source/devices/kprobe").exists(),
            perf_event_paranoid: read(&options.proc.join("sys/kernel/perf_event_paranoid"))
                .and_then(|text| text.parse().ok()),
            memory_hierarchy: Hierarchy::parse(&cgroups),
            memory_hierarchy_id: Hierarchy::id(&cgroups),
            huge_pages: read(&options.sys.join("kernel/mm/transparent_hugepage/enabled"))
                .map_or(HugePages::Never, |text| HugePages::parse(&text)),
            lockdown: read(&options.sys.join("kernel/security/lockdown"))
                .map_or(Lockdown::Unknown, |text| Lockdown::parse(&text)),
            capabilities: Capabilities::of_this_process(),
            numa: numa::Facts::gather(&options.proc, &options.sys),
            node_stats: symbols.node_stats,
            tracefs: options.sys.join("kernel/tracing/events").exists(),
        }
    }

    pub fn function(&self, name: &str) -> Function {
        self.functions.get(name).copied().unwrap_or_default()
    }

    /// The symbols of a function: its own, and those of the copies that the compiler has made of it (user case 58).
    pub(super) fn symbols_of(&self, function: &str) -> Vec<&str> {
        let own = self.functions.get_key_value(function);
        let own = own.filter(|(_, found)| found.symbol).map(|(name, _)| name);
        let copies = self.copies.get(function).into_iter().flatten();
        own.into_iter().chain(copies).map(String::as_str).collect()
    }

    pub fn has_tracepoint(&self, name: &str) -> bool {
        self.tracepoints.contains(name)
    }

    /// How the programs get at the node's own counters, or why they cannot.
    pub fn node_counters(&self) -> Result<&'static str, &'static str> {
        if self.offsets.node.is_none() {
            return Err("BTF does not tell where the node's counters are");
        }
        match (self.node_stats, self.numa.nodes) {
            (Some(_), _) => Ok("read at vm_node_stat"),
            (None, 1) => Ok("read through the cgroup's node"),
            (None, _) => Err("kallsyms hides vm_node_stat, and there are several NUMA nodes"),
        }
    }

    /// How far the node's counters may lag.
    pub(super) fn node_lag(&self) -> NodeLag {
        NodeLag {
            stocks: self.offsets.node.as_ref().map_or(1, |node| node.stocks),
            threshold: self.numa.held_back,
            numa_nodes: self.numa.nodes,
        }
    }

    /// Pages that one page fault may bring in.
    pub fn pages_per_fault(&self) -> u32 {
        if self.huge_pages == HugePages::Never {
            1
        } else {
            eviction_ebpf::abi::WORST_FOLIO_PAGES
        }
    }
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path)
        .ok()
        .map(|text| text.trim().to_owned())
}

fn function(name: &str, types: &Result<KernelTypes, BtfError>, symbols: &Symbols) -> Function {
    Function {
        symbol: symbols.found.contains(name),
        btf: types.as_ref().is_ok_and(|types| types.has_function(name)),
    }
}

/// BTF knows the tracepoints that are built in; those of a module show by their iterator function (5.10 and later).
fn tracepoint(name: &str, types: &Result<KernelTypes, BtfError>, symbols: &Symbols) -> bool {
    types.as_ref().is_ok_and(|types| types.has_tracepoint(name))
        || symbols.found.contains(&iterator_of(name))
}

fn iterator_of(tracepoint: &str) -> String {
    format!("__traceiter_{tracepoint}")
}

fn wanted_symbols() -> BTreeSet<String> {
    FUNCTIONS
        .into_iter()
        .map(str::to_owned)
        .chain(TRACEPOINTS.into_iter().map(iterator_of))
        .collect()
}

impl Hierarchy {
    /// What follows the name on the memory controller's line of `/proc/cgroups`.
    fn memory_fields(cgroups: &str) -> Option<Vec<&str>> {
        let memory = cgroups
            .lines()
            .find_map(|line| line.strip_prefix("memory\t"))?;
        Some(memory.split_whitespace().collect())
    }

    fn id(cgroups: &str) -> u32 {
        let fields = Self::memory_fields(cgroups).unwrap_or_default();
        fields.first().and_then(|id| id.parse().ok()).unwrap_or(0)
    }

    /// `/proc/cgroups`: the second column is the v1 hierarchy, 0 for the unified one.
    fn parse(cgroups: &str) -> Self {
        match Self::memory_fields(cgroups) {
            Some(fields) if fields.last() == Some(&"0") => Self::None,
            Some(fields) if fields.first() == Some(&"0") => Self::V2,
            Some(_) => Self::V1,
            // From 6.11 on a kernel without cgroup v1 memory does not list it there.
            None => Self::V2,
        }
    }
}

/// The word in brackets is the one in force.
fn chosen(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0)
}

impl HugePages {
    fn parse(text: &str) -> Self {
        match chosen(text) {
            Some("never") => Self::Never,
            Some("madvise") => Self::Madvise,
            _ => Self::Always,
        }
    }
}

impl Lockdown {
    fn parse(text: &str) -> Self {
        match chosen(text) {
            Some("none") => Self::None,
            Some("integrity") => Self::Integrity,
            Some("confidentiality") => Self::Confidentiality,
            _ => Self::Unknown,
        }
    }
}

impl Capabilities {
    fn of_this_process() -> Self {
        let has = |capability| caps::has_cap(None, CapSet::Effective, capability).unwrap_or(false);
        Self {
            bpf: has(Capability::CAP_BPF),
            perfmon: has(Capability::CAP_PERFMON),
            sys_admin: has(Capability::CAP_SYS_ADMIN),
            sys_resource: has(Capability::CAP_SYS_RESOURCE),
        }
    }

    /// Loading programs that read kernel memory takes both halves of what CAP_SYS_ADMIN once was.
    pub fn may_trace(self) -> bool {
        self.sys_admin || (self.bpf && self.perfmon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_hierarchy_is_read_from_proc_cgroups() {
        let v1 =
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpuset\t3\t1\t1\nmemory\t4\t7\t1\n";
        assert_eq!(
            (Hierarchy::parse(v1), Hierarchy::id(v1)),
            (Hierarchy::V1, 4)
        );
        assert_eq!(Hierarchy::id("cpuset\t0\t9\t1"), 0);
        assert_eq!(
            Hierarchy::parse(&v1.replace("memory\t4", "memory\t0")),
            Hierarchy::V2
        );
        assert_eq!(Hierarchy::parse("memory\t0\t1\t0"), Hierarchy::None);
        assert_eq!(Hierarchy::parse("cpuset\t0\t9\t1"), Hierarchy::V2);
    }

    #[test]
    fn the_bracketed_word_counts() {
        assert_eq!(
            HugePages::parse("always [madvise] never"),
            HugePages::Madvise
        );
        assert_eq!(HugePages::parse("always madvise [never]"), HugePages::Never);
        assert_eq!(
            Lockdown::parse("none [integrity] confidentiality"),
            Lockdown::Integrity
        );
        assert_eq!(Lockdown::parse("nonsense"), Lockdown::Unknown);
    }

    #[test]
    fn an_empty_system_yields_facts_all_the_same() {
        let nowhere = PathBuf::from("/nonexistent");
        let facts = Facts::gather(&FactsOptions {
            btf: nowhere.clone(),
            proc: nowhere.clone(),
            sys: nowhere,
        });
        assert!(
            facts
                .btf_error
                .as_ref()
                .is_some_and(|text| text.contains("/nonexistent"))
        );
        assert_eq!(facts.offsets, Offsets::default());
        assert!(facts.tracepoints.is_empty() && !facts.kprobes);
    }
}
