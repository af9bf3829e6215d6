//! From a page counter or the current task to its cgroup in the memory hierarchy. All reads may fail without harm: an
//! address that turns out to be something else yields an error or a mismatch, never a crash.
//!
//! Failures are values here, not `Option`s: the payload of a `None` is uninitialised, LLVM may keep it in a stack slot that
//! it has not written, and 5.10's verifier refuses to read such a slot.

use aya_ebpf::helpers::generated::{
    bpf_get_current_cgroup_id, bpf_get_current_task, bpf_get_current_task_btf,
};
use eviction_ebpf::abi::UNKNOWN;

use crate::globals::{
    CGROUP_KN, CGROUP_MEMORY, CGROUP_ROOT, COUNTER_FROM_CSS, COUNTER_USAGE, CSS_CGROUP, CSS_PARENT,
    CSS_SET_MEMORY, KN_ID, KN_NAME, KN_PARENT, MEMORY_HIERARCHY, MEMORY_ON_V1, ROOT_HIERARCHY,
    TASK_CGROUPS, TASK_TYPED,
};
use crate::reading::{Reads, Typed, half, word};

/// Deeper cgroups are treated as inside every scope: a needless look at worst.
const MAX_DEPTH: u32 = 16;
/// Not an address that anything lies at.
const UNREADABLE: u64 = 1;
/// No number of pages.
pub(crate) const NOT_READ: u64 = u64::MAX;

/// Address of a `cgroup_subsys_state` of the memory controller.
pub(crate) type Css = u64;

/// Whose charge it is. No enum with a payload: an absent one is uninitialised, and the verifier refuses to copy it.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    /// 0 if offsets are missing.
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

/// A cgroup's directory in kernfs. All its figures are 0 where they cannot be read.
#[derive(Clone, Copy)]
pub(crate) struct KernfsNode(u64);

impl KernfsNode {
    /// Of a `struct cgroup`.
    pub(crate) fn of(cgroup: u64) -> Self {
        Self(word(cgroup, CGROUP_KN.load(), 0))
    }

    /// What `stat` shows as inode number of the directory.
    pub(crate) fn id(self) -> u64 {
        word(self.0, KN_ID.load(), 0)
    }

    pub(crate) fn parent(self) -> Self {
        Self(word(self.0, KN_PARENT.load(), 0))
    }

    /// The address of its name.
    pub(crate) fn name(self) -> u64 {
        word(self.0, KN_NAME.load(), 0)
    }
}

/// Whether a `struct cgroup` is one of the memory controller's hierarchy. Each hierarchy of cgroup v1 numbers its cgroups
/// from 1 on: an id means nothing without its hierarchy.
pub(crate) fn is_of_memory_hierarchy(cgroup: u64) -> bool {
    let root = word(cgroup, CGROUP_ROOT.load(), 0);
    half(root, ROOT_HIERARCHY.load(), UNKNOWN) == MEMORY_HIERARCHY.load()
}

/// Where a css lies with respect to a scope.
pub(crate) struct Place {
    /// The scope's css, 0 if it is not among the ancestors.
    pub(crate) scope: Css,
    /// Whether the walk ended at the root without meeting the scope.
    pub(crate) outside: bool,
}

/// The memory cgroup that a page counter belongs to. A memory counter's css is the one its cgroup names as memory css;
/// any other counter fails that test.
pub(crate) fn owner_of_counter(counter: u64) -> Owner {
    if COUNTER_FROM_CSS.load() == UNKNOWN {
        return Owner::UNKNOWN;
    }
    let css = counter.wrapping_sub(u64::from(COUNTER_FROM_CSS.load()));
    let cgroup = word(css, CSS_CGROUP.load(), 0);
    let back = word(cgroup, CGROUP_MEMORY.load(), UNREADABLE);
    // Next to a memory counter lie others whose "css" leads to some readable word, so nothing but equality will do. A
    // cgroup that is being removed fails the test too (`offline_css()` clears the pointer): no task can charge it any more.
    if back == css {
        Owner { css, memory: true }
    } else {
        Owner::NOT_MEMORY
    }
}

pub(crate) fn owner_of_current() -> Owner {
    // SAFETY: a helper without preconditions.
    owner_of(unsafe { bpf_get_current_task() })
}

/// The memory cgroup of a `task_struct`.
#[inline(always)]
pub(crate) fn owner_of(task: u64) -> Owner {
    if TASK_CGROUPS.load() == UNKNOWN {
        return Owner::UNKNOWN;
    }
    let set = word(task, TASK_CGROUPS.load(), 0);
    Owner {
        css: word(set, CSS_SET_MEMORY.load(), 0),
        memory: true,
    }
}

/// The kernfs id of the css's cgroup: what `stat` shows as inode number of its directory. 0 if it cannot be read.
pub(crate) fn id(css: Css) -> u64 {
    KernfsNode::of(word(css, CSS_CGROUP.load(), 0)).id()
}

/// The id to report for what the current task does: on cgroup v1 that of the memory hierarchy, else the default one's,
/// which is exact even where the memory controller is not enabled all the way down.
pub(crate) fn id_of_current() -> u64 {
    if MEMORY_ON_V1.load() != 0 {
        let id = if TASK_TYPED.load() != 0 {
            typed_id_of_current()
        } else {
            id(owner_of_current().css)
        };
        if id != 0 {
            return id;
        }
    }
    // SAFETY: a helper without preconditions.
    unsafe { bpf_get_current_cgroup_id() }
}

/// The same as [`id`] of the current task's css.
#[inline(always)]
fn typed_id_of_current() -> u64 {
    // SAFETY: a helper without preconditions; from 5.11 on, `TASK_TYPED` says whether it is there.
    let task = unsafe { bpf_get_current_task_btf() } as u64;
    let set = Typed::read(task, TASK_CGROUPS.load(), 0_u64);
    let css = Typed::read(set, CSS_SET_MEMORY.load(), 0_u64);
    let cgroup = Typed::read(css, CSS_CGROUP.load(), 0_u64);
    let node = Typed::read(cgroup, CGROUP_KN.load(), 0_u64);
    Typed::read(node, KN_ID.load(), 0_u64)
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
        let found = id(at);
        if found == scope {
            return Place {
                scope: at,
                outside: false,
            };
        }
        at = word(at, CSS_PARENT.load(), UNREADABLE);
        if found == 0 || at == UNREADABLE {
            break;
        }
    }
    Place {
        scope: 0,
        outside: false,
    }
}

/// Pages in the css's memory counter, [`NOT_READ`] if they cannot be read.
pub(crate) fn usage(css: Css) -> u64 {
    if css == 0 {
        return NOT_READ;
    }
    word(
        css,
        COUNTER_FROM_CSS.load() + COUNTER_USAGE.load(),
        NOT_READ,
    )
}
