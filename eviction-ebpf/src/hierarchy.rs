//! From a page counter or the current task to its cgroup in the memory hierarchy. All reads may fail without harm: an
//! address that turns out to be something else yields an error or a mismatch, never a crash.

use aya_ebpf::helpers::{
    bpf_get_current_task, bpf_probe_read_kernel, generated::bpf_get_current_cgroup_id,
};
use eviction_ebpf::abi::UNKNOWN;

use crate::globals::{
    CGROUP_KN, CGROUP_MEMORY, COUNTER_FROM_CSS, COUNTER_USAGE, CSS_CGROUP, CSS_PARENT,
    CSS_SET_MEMORY, KN_ID, MEMORY_ON_V1, TASK_CGROUPS,
};

/// Deeper cgroups are treated as inside every scope: a needless look at worst.
const MAX_DEPTH: u32 = 16;

/// Address of a `cgroup_subsys_state` of the memory controller.
pub(crate) type Css = u64;

/// Whose charge it is. No enum with a payload: an absent one is uninitialised, and the verifier refuses to copy it.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    /// 0 if offsets are missing or the cgroup is being removed.
    pub(crate) css: Css,
    /// False for a counter that is not a memory counter (swap, kernel memory, hugetlb).
    pub(crate) memory: bool,
}

impl Owner {
    const UNKNOWN: Self = Self {
        css: 0,
        memory: true,
    };
    const NOT_MEMORY: Self = Self {
        css: 0,
        memory: false,
    };
}

/// Where a css lies with respect to a scope.
pub(crate) struct Place {
    /// The scope's css, 0 if it is not among the ancestors.
    pub(crate) scope: Css,
    /// Whether the walk ended at the root without meeting the scope.
    pub(crate) outside: bool,
}

/// Reads the word at `base + offset`.
pub(crate) fn word(base: u64, offset: u32) -> Option<u64> {
    if base == 0 {
        return None;
    }
    // SAFETY: the helper checks the address and reports a fault as an error.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const u64) }.ok()
}

/// Reads the half word at `base + offset`.
pub(crate) fn half(base: u64, offset: u32) -> Option<u32> {
    if base == 0 {
        return None;
    }
    // SAFETY: as above.
    unsafe { bpf_probe_read_kernel((base + u64::from(offset)) as *const u32) }.ok()
}

/// The memory cgroup that a page counter belongs to. A memory counter's css is the one its cgroup names as memory css;
/// any other counter fails that test.
pub(crate) fn owner_of_counter(counter: u64) -> Owner {
    if COUNTER_FROM_CSS.load() == UNKNOWN {
        return Owner::UNKNOWN;
    }
    let css = counter.wrapping_sub(u64::from(COUNTER_FROM_CSS.load()));
    let Some(back) =
        word(css, CSS_CGROUP.load()).and_then(|cgroup| word(cgroup, CGROUP_MEMORY.load()))
    else {
        return Owner::NOT_MEMORY;
    };
    if back == css {
        Owner { css, memory: true }
    } else if back == 0 {
        // `offline_css()` clears the pointer while late charges still arrive.
        Owner::UNKNOWN
    } else {
        Owner::NOT_MEMORY
    }
}

pub(crate) fn owner_of_current() -> Owner {
    if TASK_CGROUPS.load() == UNKNOWN {
        return Owner::UNKNOWN;
    }
    // SAFETY: a helper without preconditions.
    let task = unsafe { bpf_get_current_task() };
    let css = word(task, TASK_CGROUPS.load()).and_then(|set| word(set, CSS_SET_MEMORY.load()));
    Owner {
        css: css.unwrap_or(0),
        memory: true,
    }
}

/// The kernfs id of the css's cgroup: what `stat` shows as inode number of its directory.
pub(crate) fn id(css: Css) -> Option<u64> {
    let cgroup = word(css, CSS_CGROUP.load())?;
    let node = word(cgroup, CGROUP_KN.load())?;
    word(node, KN_ID.load())
}

/// The id to report for what the current task does: on cgroup v1 that of the memory hierarchy, else the default one's,
/// which is exact even where the memory controller is not enabled all the way down.
pub(crate) fn id_of_current() -> u64 {
    if MEMORY_ON_V1.load() != 0
        && let Some(id) = id(owner_of_current().css)
    {
        return id;
    }
    // SAFETY: a helper without preconditions.
    unsafe { bpf_get_current_cgroup_id() }
}

/// Looks for `scope` among the css and its ancestors.
pub(crate) fn place(css: Css, scope: u64) -> Place {
    let mut at = css;
    for _ in 0..MAX_DEPTH {
        if at == 0 {
            return Place {
                scope: 0,
                outside: true,
            };
        }
        match id(at) {
            Some(found) if found == scope => {
                return Place {
                    scope: at,
                    outside: false,
                };
            }
            Some(_) => {}
            None => break,
        }
        match word(at, CSS_PARENT.load()) {
            Some(parent) => at = parent,
            None => break,
        }
    }
    Place {
        scope: 0,
        outside: false,
    }
}

/// Pages in the css's memory counter.
pub(crate) fn usage(css: Css) -> Option<u64> {
    word(css, COUNTER_FROM_CSS.load() + COUNTER_USAGE.load())
}
