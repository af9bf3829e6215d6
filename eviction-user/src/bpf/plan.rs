//! From facts to a plan: a pure function. Each hook has a ladder of steps, best first; a step is to be tried, or ruled out
//! with the reason. What a try yields is only known when it is made: see [`super::attach`].

use std::fmt;

use eviction_ebpf::abi::Rung;
use serde::Serialize;

use super::facts::{Facts, Lockdown};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    pub memory: Vec<Step>,
    pub inodes: Vec<Step>,
}

/// One alternative. Its rungs belong together: the first ones make it work, see [`Step::needs_all`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    pub rungs: Vec<Candidate>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Candidate {
    pub rung: Rung,
    pub excluded: Option<Reason>,
}

/// Why a rung is not even tried.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Reason {
    NotBuilt,
    NoPrivilege,
    NoBtf { detail: String },
    NoFunction { function: &'static str },
    NoKprobes,
    ArgumentUnknown { function: &'static str },
    PerfForbidden { paranoid: i32 },
    NoTracepoint { tracepoint: &'static str },
    Locked,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => write!(
                formatter,
                "this program was built without eBPF (EVICTION_SKIP_EBPF=1)"
            ),
            Self::NoPrivilege => write!(
                formatter,
                "CAP_BPF and CAP_PERFMON are missing: run as root or grant both"
            ),
            Self::NoBtf { detail } => write!(formatter, "{detail}"),
            Self::NoFunction { function } => {
                write!(formatter, "this kernel has no function {function}")
            }
            Self::NoKprobes => write!(
                formatter,
                "this kernel is built without kprobes (CONFIG_KPROBE_EVENTS)"
            ),
            Self::ArgumentUnknown { function } => {
                write!(
                    formatter,
                    "BTF does not tell which argument of {function} is the inode"
                )
            }
            Self::PerfForbidden { paranoid } => write!(
                formatter,
                "perf events of other processes are forbidden (kernel.perf_event_paranoid = {paranoid}): grant CAP_PERFMON"
            ),
            Self::NoTracepoint { tracepoint } => {
                write!(
                    formatter,
                    "no tracepoint {tracepoint}: its file system is not in this kernel, or not loaded yet"
                )
            }
            Self::Locked => write!(
                formatter,
                "kernel lockdown is at `confidentiality`: eBPF may not read kernel memory"
            ),
        }
    }
}

impl Step {
    fn one(rung: Rung, excluded: Option<Reason>) -> Self {
        Self {
            rungs: vec![Candidate { rung, excluded }],
        }
    }

    /// The rungs to try, in order.
    pub fn to_try(&self) -> impl Iterator<Item = Rung> {
        self.rungs
            .iter()
            .filter(|candidate| candidate.excluded.is_none())
            .map(|candidate| candidate.rung)
    }

    /// Page faults without the page cache would miss what is read and written: that step counts only with its first
    /// rung. File systems' tracepoints are independent of each other.
    pub fn leader(&self) -> Option<Rung> {
        self.rungs
            .first()
            .map(|candidate| candidate.rung)
            .filter(|rung| *rung == Rung::PerfFaults)
    }
}

pub fn plan(facts: &Facts) -> Plan {
    let blocked = blocked(facts);
    let step = |rung, excluded: Option<Reason>| Step::one(rung, blocked.clone().or(excluded));
    let candidate = |rung, excluded: Option<Reason>| Candidate {
        rung,
        excluded: blocked.clone().or(excluded),
    };
    Plan {
        memory: vec![
            step(Rung::FentryCharge, fentry(facts, CHARGE)),
            step(Rung::KprobeCharge, kprobe(facts, CHARGE)),
            Step {
                rungs: vec![
                    candidate(Rung::PerfFaults, perf(facts)),
                    candidate(
                        Rung::TraceFilemap,
                        tracepoint(facts, "mm_filemap_add_to_page_cache"),
                    ),
                ],
            },
            step(Rung::TracePageAlloc, tracepoint(facts, "mm_page_alloc")),
        ],
        inodes: vec![
            step(
                Rung::FentryInode,
                fentry(facts, INODE).or_else(|| argument(facts)),
            ),
            step(
                Rung::KprobeInode,
                kprobe(facts, INODE).or_else(|| argument(facts)),
            ),
            Step {
                rungs: vec![
                    candidate(Rung::TraceExt4, tracepoint(facts, "ext4_allocate_inode")),
                    candidate(Rung::TraceXfs, tracepoint(facts, "xfs_create")),
                    candidate(Rung::TraceBtrfs, tracepoint(facts, "btrfs_inode_new")),
                ],
            },
        ],
    }
}

const CHARGE: &str = "page_counter_try_charge";
const INODE: &str = "inode_init_owner";

/// What rules out every rung alike.
fn blocked(facts: &Facts) -> Option<Reason> {
    if !facts.built {
        return Some(Reason::NotBuilt);
    }
    if !facts.capabilities.may_trace() {
        return Some(Reason::NoPrivilege);
    }
    (facts.lockdown == Lockdown::Confidentiality).then_some(Reason::Locked)
}

fn fentry(facts: &Facts, function: &'static str) -> Option<Reason> {
    if let Some(detail) = facts.btf_error.clone() {
        return Some(Reason::NoBtf { detail });
    }
    (!facts.function(function).btf).then_some(Reason::NoFunction { function })
}

fn kprobe(facts: &Facts, function: &'static str) -> Option<Reason> {
    if !facts.kprobes {
        return Some(Reason::NoKprobes);
    }
    (!facts.function(function).symbol).then_some(Reason::NoFunction { function })
}

fn argument(facts: &Facts) -> Option<Reason> {
    facts
        .offsets
        .inode_arg
        .is_none()
        .then_some(Reason::ArgumentUnknown { function: INODE })
}

fn perf(facts: &Facts) -> Option<Reason> {
    let free = facts.capabilities.perfmon || facts.capabilities.sys_admin;
    let paranoid = facts
        .perf_event_paranoid
        .filter(|level| *level >= 1 && !free)?;
    Some(Reason::PerfForbidden { paranoid })
}

fn tracepoint(facts: &Facts, tracepoint: &'static str) -> Option<Reason> {
    (!facts.has_tracepoint(tracepoint)).then_some(Reason::NoTracepoint { tracepoint })
}
