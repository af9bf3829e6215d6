//! What the guards of the configuration may ask for beside the signals.

use crate::model::Summary;
use bytesize::ByteSize;
use serde::Serialize;

/// `None`: unknown on this machine.
#[derive(Debug, Serialize)]
pub(super) struct NodeFigures {
    /// Of the last ten seconds.
    pub(super) memory_stall_percent: Option<f32>,
    /// In bytes, as the next.
    pub(super) reclaimable_cache: Option<u64>,
    pub(super) swap_free: Option<u64>,
    /// Removed cgroups that still hold memory.
    pub(super) dying_cgroups: Option<u64>,
}

impl NodeFigures {
    pub(super) const HEADER: [&str; 4] = [
        "memory stall",
        "reclaimable cache",
        "free swap",
        "dying cgroups",
    ];

    pub(super) fn of(summary: &Summary) -> Self {
        Self {
            memory_stall_percent: summary.memory_stall_percent,
            reclaimable_cache: summary.reclaimable_cache,
            swap_free: summary.swap_free,
            dying_cgroups: summary.dying_cgroups,
        }
    }

    pub(super) fn row(&self) -> Vec<String> {
        let stall = self.memory_stall_percent;
        vec![
            or_unknown(stall.map(|percent| format!("{percent} % of 10 s"))),
            or_unknown(self.reclaimable_cache.map(ByteSize::b)),
            or_unknown(self.swap_free.map(ByteSize::b)),
            or_unknown(self.dying_cgroups),
        ]
    }
}

fn or_unknown(figure: Option<impl ToString>) -> String {
    figure.map_or("unknown".to_owned(), |figure| figure.to_string())
}
