//! The policy's guards: which figures they need, and whether this machine has those.

use super::Failure;
use crate::host::GuardsAsked;
use crate::policy::additions::Additions;
use crate::sys::cgroup::{DyingCgroups, Hierarchy};
use crate::sys::pressure::MemoryStall;

/// Only the figures of guards that are on are read.
pub(super) fn asked(additions: &Additions) -> GuardsAsked {
    GuardsAsked {
        stall: additions.min_stall_percent.is_some(),
        dying: additions.max_dying_cgroups.is_some(),
    }
}

/// A guard that cannot see is no guard.
pub(super) fn check(additions: &Additions, hierarchy: &Hierarchy) -> Result<(), Failure> {
    if additions.min_stall_percent.is_some() {
        MemoryStall::open().map_err(|e| {
            Failure::usage(&format!(
                "minimumMemoryStallPercent: {e}; boot with psi=1 (the kernel needs CONFIG_PSI), or remove the setting"
            ))
        })?;
    }
    if additions.max_dying_cgroups.is_some() {
        let dying = DyingCgroups::open(hierarchy)
            .map_err(|e| Failure::usage(&format!("maximumDyingCgroups: {e}")))?;
        if dying.is_none() {
            return Err(Failure::usage(
                &"maximumDyingCgroups: cgroup v1 does not tell how many removed cgroups still hold memory; remove the setting",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_is_off_reads_nothing() {
        let mut additions = Additions::default();
        let figures = |additions: &Additions| {
            let asked = asked(additions);
            (asked.stall, asked.dying)
        };
        assert_eq!(figures(&additions), (false, false));
        additions.min_stall_percent = Some(1.0);
        assert_eq!(figures(&additions), (true, false));
        additions.max_dying_cgroups = Some(0);
        assert_eq!(figures(&additions), (true, true));
    }
}
