//! Our lines beside the kubelet's, in words.

use crate::config::{Effective, Line, MEMORY_GAP, Pair, pairs};
use crate::model::{Resource, Signal};
use crate::sys::cgroup::Hierarchy;
use crate::sys::node_memory::NodeMemoryReader;
use crate::sys::node_tasks::NodeTasksReader;
use bytesize::ByteSize;
use std::cmp::Ordering;

pub(super) struct Told {
    pub(super) signal: Signal,
    /// Both lines, and who comes first.
    pub(super) detail: String,
    /// What would be right; `None`: it is.
    pub(super) fix: Option<String>,
}

pub(super) fn compare(ours: &Effective, kubelets: &Effective) -> Vec<Told> {
    let pairs = pairs(ours, kubelets, capacity);
    pairs
        .iter()
        .map(|pair| Told {
            signal: pair.signal,
            detail: detail(pair),
            fix: fix(pair),
        })
        .collect()
}

/// At the start of whoever evicts beside the kubelet.
pub(super) fn warn(ours: &Effective, kubelets: &Effective) {
    for told in compare(ours, kubelets) {
        if let Some(fix) = told.fix {
            tracing::warn!("{}: {}; {fix}", told.signal, told.detail);
        }
    }
}

/// Where no path is needed for it.
fn capacity(signal: Signal) -> Option<i64> {
    match signal {
        Signal::MemoryAvailable => {
            let hierarchy = Hierarchy::detect().ok()?;
            let memory = NodeMemoryReader::open(&hierarchy).ok()?.read().ok()?;
            i64::try_from(memory.total).ok()
        }
        Signal::PidAvailable => NodeTasksReader::open().ok()?.read().ok()?.max_pid,
        _ => None,
    }
}

fn detail(pair: &Pair) -> String {
    let line = |line: &Line| format!("{} ({})", line.text, line.origin);
    let by = match pair.gap().map(i64::unsigned_abs) {
        Some(0) | None => String::new(),
        Some(gap) => format!(" by {}", amount(pair.signal, gap)),
    };
    let who = match pair.order {
        Some(Ordering::Greater) => format!("ours comes first{by}"),
        Some(Ordering::Equal) => "both act together".to_owned(),
        Some(Ordering::Less) => format!("the kubelet's comes first{by}"),
        None => "which comes first cannot be told of a part and an amount".to_owned(),
    };
    format!(
        "the kubelet's line {}, ours {}: {who}",
        line(&pair.kubelets),
        line(&pair.ours)
    )
}

fn amount(signal: Signal, amount: u64) -> String {
    match signal.resource() {
        Resource::Memory | Resource::EphemeralStorage => ByteSize::b(amount).to_string(),
        Resource::Inodes | Resource::Pids => amount.to_string(),
    }
}

fn fix(pair: &Pair) -> Option<String> {
    if pair.is_recommended() == Some(true) {
        return None;
    }
    let signal = pair.signal;
    Some(match (signal.resource(), pair.kubelets.amount) {
        (Resource::Memory, Some(kubelets)) => {
            let least = kubelets.saturating_add(MEMORY_GAP).unsigned_abs();
            let mib = least.div_ceil(1 << 20);
            format!(
                "two evictors within 100 MiB may take two pods: give --eviction-hard '{signal}<{mib}Mi' or more, or lower the kubelet's evictionHard"
            )
        }
        (Resource::Memory, None) => format!(
            "write both lines of {signal} as amounts, ours 100Mi above the kubelet's: two evictors within 100 MiB may take two pods"
        ),
        (Resource::Pids, _) => format!(
            "two evictors at one line may take two pods: let ours be above the kubelet's {}",
            pair.kubelets.text
        ),
        (Resource::EphemeralStorage | Resource::Inodes, _) => format!(
            "let ours be below the kubelet's {}: it removes unused images before it evicts",
            pair.kubelets.text
        ),
    })
}
