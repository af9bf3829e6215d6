//! The kubelet as the other evictor of this node: whether its lines keep out of the way of ours.

use super::checks::{Check, State};
use crate::cli::kubelet_args::Found;
use crate::cli::pairing::compare;
use crate::config::Effective;

const AREA: &str = "beside the kubelet";

pub(super) fn beside(ours: &Effective, found: &Found) -> Vec<Check> {
    let doubts = found
        .doubts
        .iter()
        .map(|doubt| settings(State::Absent, doubt, None));
    let mut checks: Vec<_> = doubts.collect();
    let Some(kubelets) = &found.settings.effective else {
        if checks.is_empty() {
            let fix = "run it where the kubelet's process is to be seen (hostPID), or give its file by --kubelet-config";
            checks.push(settings(
                State::Absent,
                "no process `kubelet` is to be seen here: what it decides is not known",
                Some(fix),
            ));
        }
        return checks;
    };
    checks.push(settings(State::Used, &format!("by {}", found.from), None));
    let pairs = compare(ours, kubelets).into_iter();
    checks.extend(pairs.map(|told| Check {
        area: AREA,
        item: told.signal.name().to_owned(),
        state: if told.fix.is_none() {
            State::Used
        } else {
            State::Absent
        },
        detail: told.detail,
        fix: told.fix,
    }));
    checks
}

fn settings(state: State, detail: &str, fix: Option<&str>) -> Check {
    Check {
        area: AREA,
        item: "its settings".to_owned(),
        state,
        detail: detail.to_owned(),
        fix: fix.map(str::to_owned),
    }
}
