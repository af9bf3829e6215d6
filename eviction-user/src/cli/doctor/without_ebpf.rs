//! What stands below the hooks for memory: the counters that they compare, what they cannot see, and the kernel's own
//! notifications for when there are none.

use super::checks::{Check, State};
use crate::bpf::{Facts, HookReport, Rung};
use crate::host::Notices;
use crate::sys::cgroup::{CgroupDir, Hierarchy, Version};

pub(super) fn below_the_hooks(
    area: &'static str,
    report: &HookReport,
    facts: &Facts,
) -> Vec<Check> {
    let mut checks = Vec::new();
    if report.is_attached() {
        checks.push(compared(area, facts));
    }
    checks.extend(unseen(area, report));
    checks.extend(notifications(area, report.is_attached()));
    checks
}

/// Whether looks that would be wasted are spared on the node's line.
fn compared(area: &'static str, facts: &Facts) -> Check {
    let (state, detail) = match facts.node_counters() {
        Ok(how) => (State::Used, format!("compared with the node's line, {how}")),
        Err(why) => (
            State::Absent,
            format!("{why}: every credit that is used up leads to a look"),
        ),
    };
    Check {
        area,
        item: "node counters".to_owned(),
        state,
        detail,
        fix: None,
    }
}

fn unseen(area: &'static str, report: &HookReport) -> Option<Check> {
    report
        .attached
        .contains(&Rung::PerfFaults)
        .then(|| Check {
            area,
            item: "tmpfs".to_owned(),
            state: State::Absent,
            detail: "what is written to tmpfs neither faults nor passes a tracepoint: the heartbeat finds it"
                .to_owned(),
            fix: Some("a kernel with fentry or kprobes sees it".to_owned()),
        })
}

/// Tries each, as `run` would without eBPF.
fn notifications(area: &'static str, hooked: bool) -> Vec<Check> {
    let opened = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .ok()
        .and_then(|runtime| {
            let _within = runtime.enter();
            let hierarchy = Hierarchy::detect().ok()?;
            let root = CgroupDir::open(&hierarchy.mount).ok()?;
            // The root of cgroup v2 has none of the files that the watched cgroup would have.
            let group = match hierarchy.version {
                Version::V2 => root.children().into_iter().next().unwrap_or(root),
                Version::V1 => root,
            };
            let notices = Notices::open(&hierarchy, &group);
            let failures: Vec<_> = notices.failures().collect();
            Some((notices.names(), failures))
        });
    let (names, failures) = opened.unwrap_or_default();
    let there = names.into_iter().map(|name| Check {
        area,
        item: name.to_owned(),
        state: if hooked { State::Spare } else { State::Used },
        detail: if hooked {
            "not needed: a hook is in use"
        } else {
            "wakes the timer earlier"
        }
        .to_owned(),
        fix: None,
    });
    let not_there = failures.into_iter().map(|(name, why)| Check {
        area,
        item: name.to_owned(),
        state: State::Absent,
        detail: why,
        fix: None,
    });
    there.chain(not_there).collect()
}
