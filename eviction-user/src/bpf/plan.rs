//! From facts to a plan: a pure function. Each hook has a ladder of steps, best first; a step is to be tried, or ruled out
//! with the reason. What a try yields is only known when it is made: see [`super::attach`].

use std::{collections::BTreeMap, fmt};

use eviction_ebpf::abi::Rung;
use serde::Serialize;

use super::bundle;
use super::{
    facts::{Facts, Lockdown},
    family::Family,
};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    ladders: BTreeMap<Family, Vec<Step>>,
}

impl Plan {
    /// The steps of one family, best first; none where nothing is known that sees it.
    pub fn ladder(&self, family: Family) -> &[Step] {
        self.ladders.get(&family).map_or(&[], Vec::as_slice)
    }

    /// Whether anything at all is worth trying.
    pub fn is_hopeless(&self) -> bool {
        let mut steps = self.ladders.values().flatten();
        steps.all(|step| step.to_try().next().is_none())
    }
}

/// One alternative. Its rungs are attached together, see [`Step::leader`].
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
    Copied { function: &'static str },
    ArgumentUnknown { function: &'static str },
    PerfForbidden { paranoid: i32 },
    NoTracepoint { tracepoint: &'static str },
    FieldsUnknown { tracepoint: &'static str },
    LayoutUnknown { member: String },
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
            Self::Copied { function } => write!(
                formatter,
                "the compiler has made copies of {function}, which fentry does not reach"
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
            Self::FieldsUnknown { tracepoint } => write!(
                formatter,
                "BTF does not tell what the tracepoint {tracepoint} hands over"
            ),
            Self::LayoutUnknown { member } => {
                write!(formatter, "BTF does not tell where {member} lies")
            }
            Self::Locked => write!(
                formatter,
                "kernel lockdown is at `confidentiality`: eBPF may not read kernel memory"
            ),
        }
    }
}

impl Step {
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
    let candidate = |rung| Candidate {
        rung,
        excluded: blocked.clone().or_else(|| excluded(rung, facts)),
    };
    let step = |rungs: &[Rung]| Step {
        rungs: rungs.iter().copied().map(candidate).collect(),
    };
    let ladder = |family| LADDERS[family as usize].iter().copied().map(step).collect();
    Plan {
        ladders: Family::ALL
            .into_iter()
            .map(|family| (family, ladder(family)))
            .collect(),
    }
}

/// Best first; the rungs of one step are attached together. In the order of [`Family::ALL`].
const LADDERS: [&[&[Rung]]; Family::ALL.len()] = [
    &[
        &[Rung::FentryCharge],
        &[Rung::KprobeCharge],
        &[Rung::PerfFaults, Rung::TraceFilemap],
        &[Rung::TracePageAlloc],
    ],
    &[
        &[Rung::FentryInode],
        &[Rung::KprobeInode],
        &[Rung::TraceExt4, Rung::TraceXfs, Rung::TraceBtrfs],
    ],
    &[
        &[Rung::FentryFreed],
        &[Rung::KprobeFreed],
        &[Rung::TraceFreedExt4, Rung::TraceFreedBtrfs],
    ],
    &[
        &[Rung::FentryExt4Bytes],
        &[Rung::KprobeExt4Bytes],
        &[Rung::TraceExt4Bytes],
    ],
    // No fentry for functions of modules: aya 0.14 knows only the kernel's own BTF.
    &[&[Rung::KprobeXfsBytes], &[Rung::TraceXfsBytes]],
    &[&[Rung::KprobeBtrfsBytes], &[Rung::TraceBtrfsBytes]],
    // No tracepoint fires where tmpfs takes a page.
    &[&[Rung::FentryTmpfsBytes], &[Rung::KprobeTmpfsBytes]],
    &[
        &[Rung::FentryWritten],
        &[Rung::KprobeWritten],
        &[Rung::TraceWritten],
    ],
    // A tracepoint that sees every task, at next to no cost: there is nothing better to try first.
    &[&[Rung::TraceNewTask]],
    &[&[Rung::TraceOom, Rung::TraceReclaim, Rung::TraceCgroups]],
];

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

fn excluded(rung: Rung, facts: &Facts) -> Option<Reason> {
    let obstacle = bundle::obstacle(rung, facts);
    match rung {
        Rung::PerfFaults => perf(facts),
        Rung::FentryInode | Rung::KprobeInode | Rung::FentryWritten | Rung::KprobeWritten => {
            obstacle.or_else(|| argument(facts))
        }
        Rung::TraceOom => obstacle.or_else(|| unknown(&facts.offsets.victim, "mark_victim")),
        Rung::TraceCgroups => obstacle
            .or_else(|| unknown(&facts.offsets.cgroup, "cgroup_mkdir"))
            .or_else(|| unknown(&facts.offsets.memcg, "cgroup_mkdir")),
        _ => obstacle,
    }
}

fn argument(facts: &Facts) -> Option<Reason> {
    facts
        .offsets
        .inode_arg
        .is_none()
        .then_some(Reason::ArgumentUnknown { function: INODE })
}

fn unknown<T>(offsets: &Option<T>, tracepoint: &'static str) -> Option<Reason> {
    offsets
        .is_none()
        .then_some(Reason::FieldsUnknown { tracepoint })
}

fn perf(facts: &Facts) -> Option<Reason> {
    let free = facts.capabilities.perfmon || facts.capabilities.sys_admin;
    let paranoid = facts
        .perf_event_paranoid
        .filter(|level| *level >= 1 && !free)?;
    Some(Reason::PerfForbidden { paranoid })
}

#[cfg(test)]
mod tests;
