//! What became of the plan: which rungs are in use, and why the better ones are not.

use std::{collections::BTreeMap, error::Error};

use crate::sys::causes;
use aya::programs::ProgramError;
use eviction_ebpf::abi::Rung;
use serde::{Serialize, Serializer};

use super::{
    family::Family,
    plan::{Candidate, Reason},
};

#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Report {
    /// Why no program could be loaded at all, if so.
    pub object: Option<String>,
    #[serde(flatten)]
    families: BTreeMap<Family, HookReport>,
}

static NOTHING: HookReport = HookReport {
    attached: Vec::new(),
    places: BTreeMap::new(),
    failed: Vec::new(),
    excluded: Vec::new(),
};

impl Report {
    /// What came of one family's ladder.
    pub fn of(&self, family: Family) -> &HookReport {
        self.families.get(&family).unwrap_or(&NOTHING)
    }

    /// Whose hooks do the work of this family here: its own, or what is left where it has none.
    pub fn serving(&self, family: Family) -> Family {
        match family.instead() {
            Some(instead) if !self.of(family).is_attached() && self.of(instead).is_attached() => {
                instead
            }
            _ => family,
        }
    }

    /// Whether any hook is attached.
    pub fn has_any(&self) -> bool {
        self.families.values().any(HookReport::is_attached)
    }

    pub(super) fn of_mut(&mut self, family: Family) -> &mut HookReport {
        self.families.entry(family).or_default()
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct HookReport {
    #[serde(serialize_with = "names")]
    pub attached: Vec<Rung>,
    /// At how many places each is attached: a kprobe on every copy of its function, page faults on every CPU.
    pub places: BTreeMap<&'static str, usize>,
    pub failed: Vec<Failure>,
    pub excluded: Vec<Exclusion>,
}

/// A rung that was tried in vain.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failure {
    #[serde(serialize_with = "name")]
    pub rung: Rung,
    /// The whole chain of causes.
    pub error: String,
}

/// A rung that was not tried.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Exclusion {
    #[serde(serialize_with = "name")]
    pub rung: Rung,
    #[serde(flatten)]
    pub reason: Reason,
}

/// How a rung stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing<'a> {
    /// At so many places.
    Used(usize),
    Excluded(&'a Reason),
    Failed(&'a str),
    /// A better one is in use.
    Spare,
}

impl HookReport {
    pub fn standing<'a>(&'a self, candidate: &'a Candidate) -> Standing<'a> {
        let rung = candidate.rung;
        if self.attached.contains(&rung) {
            return Standing::Used(self.places.get(rung.name()).copied().unwrap_or(1));
        }
        let failure = self.failed.iter().find(|failure| failure.rung == rung);
        match (&candidate.excluded, failure) {
            (Some(reason), _) => Standing::Excluded(reason),
            (None, Some(failure)) => Standing::Failed(&failure.error),
            (None, None) => Standing::Spare,
        }
    }

    /// The name of the rung in use, or `none`.
    pub fn source(&self) -> &'static str {
        self.attached.first().map_or("none", |rung| rung.name())
    }

    /// Each rung that is not in use, and why.
    pub fn why_not(&self) -> String {
        let tried = self
            .failed
            .iter()
            .map(|failed| format!("{}: {}", failed.rung.name(), failed.error));
        let ruled_out = self
            .excluded
            .iter()
            .map(|excluded| format!("{}: {}", excluded.rung.name(), excluded.reason));
        let reasons: Vec<_> = tried.chain(ruled_out).collect();
        if reasons.is_empty() {
            return "none of its hooks is allowed".to_owned();
        }
        reasons.join("; ")
    }

    pub fn is_attached(&self) -> bool {
        !self.attached.is_empty()
    }
}

fn name<S: Serializer>(rung: &Rung, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(rung.name())
}

fn names<S: Serializer>(rungs: &[Rung], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rungs.iter().map(|rung| rung.name()))
}

/// An error with its causes in one line. The verifier's log, which can have thousands of lines, is cut to its verdict.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    causes::told_by(error, |cause| match cause.downcast_ref::<ProgramError>() {
        Some(ProgramError::LoadError { verifier_log, .. }) => format!(
            "the kernel refused the program{}",
            verdict(&verifier_log.to_string())
        ),
        _ => cause.to_string(),
    })
}

/// The last line that says something; the statistics come after it.
fn verdict(log: &str) -> String {
    let statistics = ["processed ", "verification time", "stack depth"];
    let last =
        log.lines().rev().map(str::trim).find(|line| {
            !line.is_empty() && !statistics.iter().any(|start| line.starts_with(start))
        });
    last.map_or_else(String::new, |line| format!(" (verifier: {line})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("attaching")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn what_is_left_serves_only_where_the_family_has_no_hook_of_its_own() {
        let mut report = Report::default();
        assert_eq!(report.serving(Family::Ext4Bytes), Family::Ext4Bytes);
        report.of_mut(Family::WrittenBytes).attached = vec![Rung::TraceWritten];
        assert_eq!(report.serving(Family::Ext4Bytes), Family::WrittenBytes);
        assert_eq!(report.serving(Family::XfsBytes), Family::XfsBytes);
        assert_eq!(report.serving(Family::TmpfsBytes), Family::TmpfsBytes);
        report.of_mut(Family::Ext4Bytes).attached = vec![Rung::TraceExt4Bytes];
        assert_eq!(report.serving(Family::Ext4Bytes), Family::Ext4Bytes);
    }

    #[test]
    fn causes_stand_in_one_line() {
        let error = Outer(std::io::Error::from_raw_os_error(1));
        assert_eq!(
            chain(&error),
            "attaching: Operation not permitted (os error 1)"
        );
    }

    #[test]
    fn the_verdict_is_the_last_line_before_the_statistics() {
        let log =
            "0: R1=ctx()\ninvalid mem access 'scalar'\nprocessed 12 insns (limit 1000000)\n\n";
        assert_eq!(verdict(log), " (verifier: invalid mem access 'scalar')");
        assert_eq!(verdict(""), "");
    }

    #[test]
    fn a_report_is_json_with_stable_names() {
        let report = HookReport {
            attached: vec![Rung::PerfFaults, Rung::TraceFilemap],
            places: [("perf/page-faults", 2)].into(),
            failed: vec![Failure {
                rung: Rung::FentryCharge,
                error: "no".into(),
            }],
            excluded: vec![Exclusion {
                rung: Rung::KprobeCharge,
                reason: Reason::NoKprobes,
            }],
        };
        let json = serde_json::to_value(&report).unwrap();
        let expected = serde_json::json!({
            "attached": ["perf/page-faults", "raw_tp/mm_filemap_add_to_page_cache"],
            "places": {"perf/page-faults": 2},
            "failed": [{"rung": "fentry/page_counter_try_charge", "error": "no"}],
            "excluded": [{"rung": "kprobe/page_counter_try_charge", "reason": "no-kprobes"}],
        });
        assert_eq!(json, expected);
        assert_eq!(
            (report.source(), HookReport::default().source()),
            ("perf/page-faults", "none")
        );
    }
}
