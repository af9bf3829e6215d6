//! What the kernel itself counts: runs of each program and the time they take, rung by rung.

use super::{Bench, Work};
use crate::bench::{BenchError, Stop};
use crate::bpf::{RunStats, Rung};
use std::collections::BTreeSet;

/// One program under one kind of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Runs {
    pub rung: &'static str,
    pub program: String,
    pub work: Work,
    /// Per operation of the work.
    pub runs_per_operation: f64,
    pub ns_per_run: f64,
    /// Of the time that the operation takes, in percent.
    pub share_percent: f64,
    /// How long one operation took.
    pub operation_ns: f64,
}

/// Attaches each rung alone that can be attached here, and does all loops under it.
pub(super) fn measure(bench: &mut Bench<'_>, stop: &Stop) -> Result<Vec<Runs>, BenchError> {
    let stats = RunStats::enable()?;
    let mut found = Vec::new();
    for rung in Rung::ALL {
        let others: BTreeSet<u32> = stats.programs().into_keys().collect();
        let product = bench.armed(&[format!("--rungs={}", rung.name())])?;
        if !product.uses(rung.name()) {
            continue;
        }
        for work in bench.settings.works.iter().copied() {
            stop.check()?;
            let count = bench.calibrate(work)?;
            let before = stats.programs();
            let took = bench.time(work, count)?;
            let ours = stats
                .programs()
                .into_iter()
                .filter(|(id, _)| !others.contains(id));
            found.extend(ours.filter_map(|(id, after)| {
                let (runs, nanos) = before.get(&id).map_or((0, 0), |b| (b.runs, b.nanos));
                let (runs, nanos) = ((after.runs - runs) as f64, (after.nanos - nanos) as f64);
                (runs > 0.0).then(|| Runs {
                    rung: rung.name(),
                    program: after.name,
                    work,
                    runs_per_operation: runs / count as f64,
                    ns_per_run: nanos / runs,
                    share_percent: nanos / took * 100.0,
                    operation_ns: took / count as f64,
                })
            }));
        }
    }
    Ok(found)
}

/// What the fentry rung costs per page fault, from counted parts.
#[derive(Debug, Clone, PartialEq)]
pub struct Computed {
    /// One run per refill of a CPU's stock.
    pub runs_per_fault: f64,
    pub ns_per_run: f64,
    /// The program that the nanoseconds are from: its own, or the dearest memory program that runs here.
    pub ns_from: String,
    pub ns_per_fault: f64,
    pub share_percent: f64,
}

/// `page_counter_try_charge` runs once per batch of pages. Where fentry is refused its program cannot be timed: the other
/// memory programs do the same and more (they find the cgroup of the task first), so the dearest of them bounds it.
pub fn computed_fentry_share(programs: &[Runs], ns_per_fault: f64) -> Option<Computed> {
    let charged = || programs.iter().filter(|runs| runs.work == Work::PageFaults);
    let own = charged().find(|runs| runs.rung == Rung::FentryCharge.name());
    let dearest = || {
        let memory = charged().filter(|runs| runs.runs_per_operation > MANY_RUNS);
        memory.max_by(|a, b| a.ns_per_run.total_cmp(&b.ns_per_run))
    };
    let from = own.or_else(dearest)?;
    let runs_per_fault = own.map_or(1.0 / CHARGE_BATCH, |own| own.runs_per_operation);
    Some(Computed {
        runs_per_fault,
        ns_per_run: from.ns_per_run,
        ns_from: from.program.clone(),
        ns_per_fault,
        share_percent: runs_per_fault * from.ns_per_run / ns_per_fault * 100.0,
    })
}

/// Pages charged at once: `MEMCG_CHARGE_BATCH` from 5.12 on.
const CHARGE_BATCH: f64 = 64.0;
/// Fewer runs an operation than this come from something else that went on meanwhile.
const MANY_RUNS: f64 = 0.005;

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(rung: Rung, ns_per_run: f64, runs_per_operation: f64) -> Runs {
        Runs {
            rung: rung.name(),
            program: format!("{rung:?}"),
            work: Work::PageFaults,
            runs_per_operation,
            ns_per_run,
            share_percent: 0.0,
            operation_ns: 1500.0,
        }
    }

    #[test]
    fn without_fentry_the_dearest_memory_program_bounds_its_share() {
        let here = [
            runs(Rung::PerfFaults, 320.0, 1.0 / 64.0),
            runs(Rung::TracePageAlloc, 96.0, 1.0),
            runs(Rung::TraceExt4, 900.0, 0.000_1),
        ];
        let computed = computed_fentry_share(&here, 1500.0).unwrap();
        assert_eq!(computed.ns_from, "PerfFaults");
        assert!(
            (computed.share_percent - 320.0 / 64.0 / 15.0).abs() < 1e-9,
            "{computed:?}"
        );
    }

    #[test]
    fn with_fentry_its_own_figures_count() {
        let here = [
            runs(Rung::FentryCharge, 100.0, 0.02),
            runs(Rung::TracePageAlloc, 400.0, 1.0),
        ];
        let computed = computed_fentry_share(&here, 1000.0).unwrap();
        assert_eq!(
            (computed.ns_from.as_str(), computed.runs_per_fault),
            ("FentryCharge", 0.02)
        );
        assert!((computed.share_percent - 0.2).abs() < 1e-9, "{computed:?}");
        assert_eq!(computed_fentry_share(&[], 1000.0), None);
    }
}
