//! What we add to the kubelet's policy. Each is off by default, so that the default is the kubelet.

pub mod dying_guard;
pub mod exclusion;
pub mod filling_guard;
pub mod memory_figure;
pub mod pace;
pub mod protection;
pub mod stall_guard;
pub mod victim_size;

use crate::model::Span;
use protection::ProtectionRules;
use victim_size::MinVictimSize;

/// The additions that act on single decisions.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Additions {
    pub protection: ProtectionRules,
    pub min_victim_size: MinVictimSize,
    /// Time to pass after an eviction before the next.
    pub cool_down: Option<Span>,
    /// Evictions allowed in any hour.
    pub max_per_hour: Option<u32>,
    /// Memory stall, in percent of the last ten seconds, without which low memory evicts nobody.
    pub min_stall_percent: Option<f32>,
    /// Removed cgroups that still hold memory; with more of them low memory evicts nobody.
    pub max_dying_cgroups: Option<u64>,
    /// What pods ask for by annotations counts.
    #[cfg_attr(feature = "serde", serde(default))]
    pub honor_annotations: bool,
    /// A disk that stays as full as the last eviction left it evicts nobody more, and neither do PIDs that
    /// are only just coming back.
    #[cfg_attr(feature = "serde", serde(default))]
    pub only_while_filling: bool,
}

impl Additions {
    /// Nobody has a use for a victim that uses nothing of what a disk is short of, or runs nothing where tasks
    /// are: where nobody counts, nobody goes. And its files may outlive it: a host takes none away, and the
    /// kubelet keeps the writable layers of pods that it has not evicted itself.
    pub fn sparing(mut self) -> Self {
        let least = |size: &mut Option<u64>| *size = Some(size.unwrap_or(1).max(1));
        least(&mut self.min_victim_size.disk_bytes);
        least(&mut self.min_victim_size.inodes);
        least(&mut self.min_victim_size.processes);
        self.only_while_filling = true;
        self
    }
}
