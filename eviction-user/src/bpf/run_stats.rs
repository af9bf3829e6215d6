//! What the kernel counts of each program's runs while somebody wants to know it.

use aya::{
    programs::loaded_programs,
    sys::{Stats, SyscallError, enable_stats},
};
use std::{collections::BTreeMap, os::fd::OwnedFd};

/// What the names of all our programs begin with.
const OURS: &str = "ev_";

/// The kernel counts as long as this lives (`BPF_ENABLE_STATS`, 5.8). It reads its clock twice a run, so that a program
/// seems, and is, a little dearer than otherwise.
pub struct RunStats {
    _enabled: OwnedFd,
}

/// One loaded program's runs since counting began.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramRuns {
    pub name: String,
    pub runs: u64,
    /// In all.
    pub nanos: u64,
}

/// The node's own switch for it, which others may have left on.
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

impl RunStats {
    /// Does the kernel count already, for whoever switched it on?
    pub fn are_on_for_all() -> bool {
        std::fs::read_to_string(SWITCH).is_ok_and(|value| value.trim() != "0")
    }

    pub fn enable() -> Result<Self, SyscallError> {
        let enabled = enable_stats(Stats::RunTime)?;
        Ok(Self { _enabled: enabled })
    }

    /// Our programs that are loaded now, whoever did it, by their id.
    pub fn programs(&self) -> BTreeMap<u32, ProgramRuns> {
        // One that is unloaded while we go through the list is no longer of interest.
        let loaded = loaded_programs().filter_map(Result::ok);
        let ours = loaded.filter_map(|program| {
            let name = program.name_as_str()?.to_owned();
            let runs = ProgramRuns {
                runs: program.run_count(),
                nanos: u64::try_from(program.run_time().as_nanos()).unwrap_or(u64::MAX),
                name,
            };
            runs.name.starts_with(OURS).then_some((program.id(), runs))
        });
        ours.collect()
    }
}
