//! Up the ladders: what is tried, what holds, and what is written down of the rest.

use eviction_ebpf::abi::Rung;

use super::{
    attach::AttachOptions,
    facts::Facts,
    faults::FaultEvents,
    hooks::Hooks,
    plan::Step,
    report::{Exclusion, Failure, HookReport, chain},
};

/// Tries the steps top down until one holds.
pub(super) fn climb(
    ladder: &[Step],
    hooks: &mut Hooks<'_>,
    facts: &Facts,
    options: &AttachOptions,
    report: &mut HookReport,
) -> Option<FaultEvents> {
    let allowed = |rung: &Rung| {
        options
            .allow
            .as_ref()
            .is_none_or(|list| list.contains(rung))
    };
    for step in ladder {
        let mut faults = None;
        let mut leader_up = true;
        for rung in step.to_try().filter(allowed) {
            match hooks.attach(rung, facts) {
                Ok(hooked) => {
                    faults = faults.or(hooked.faults);
                    report.attached.push(rung);
                    report.places.insert(rung.name(), hooked.places);
                }
                Err(error) => {
                    report.failed.push(Failure {
                        rung,
                        error: chain(&error),
                    });
                    if step.leader() == Some(rung) {
                        leader_up = false;
                        break;
                    }
                }
            }
        }
        if leader_up && report.is_attached() {
            return faults;
        }
    }
    None
}

pub(super) fn excluded(ladder: &[Step]) -> Vec<Exclusion> {
    let candidates = ladder.iter().flat_map(|step| &step.rungs);
    candidates
        .filter_map(|candidate| {
            Some(Exclusion {
                rung: candidate.rung,
                reason: candidate.excluded.clone()?,
            })
        })
        .collect()
}
