//! What may happen on the way to the line, chosen at random.

use super::stage::Stage;
use crate::load::worker::Command;
use anyhow::Result;
use fastrand::Rng;

/// One step of the way.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A worker takes memory that is charged at that moment.
    Charge(usize, Command),
    /// A worker does what may raise the figure without a charge: file pages become active, are reclaimed, come back.
    Uncharged(usize, Command),
    Migrate {
        worker: usize,
        to: usize,
    },
    Squeeze(usize),
    RemoveCgroup {
        kib: usize,
    },
    ToggleSwap,
}

/// Largest amount taken in one step: well below what a crossing may be late.
const MOST_KIB: usize = 512;

impl Step {
    pub(super) fn choose(random: &mut Rng, stage: &mut Stage, only_charges: bool) -> Self {
        let worker = random.usize(..stage.workers.len());
        let kib = random.usize(4..=MOST_KIB);
        let children = stage.workers.len();
        let number = random.usize(..6);
        match random.u32(..if only_charges { 60 } else { 72 }) {
            0..20 => Self::Charge(worker, Command::Touch { kib }),
            20..26 => Self::Charge(worker, Command::TouchHuge { kib: 2048 }),
            26..38 => {
                let path = stage.file(true, number);
                Self::Charge(worker, Command::Write { path, kib })
            }
            38..50 => {
                let children = random.usize(1..12);
                let kib = (kib / children).max(4);
                Self::Charge(worker, Command::Fork { children, kib })
            }
            50..60 => Self::Charge(worker, Command::Remap),
            60..64 if stage.has_disk() => {
                let path = stage.file(false, 100 + number);
                Self::Uncharged(worker, Command::Write { path, kib })
            }
            64..66 => match random.choice(stage.written()) {
                Some(path) if path.exists() => {
                    Self::Uncharged(worker, Command::Read { path: path.clone() })
                }
                _ => Self::Charge(worker, Command::Touch { kib }),
            },
            66..68 => Self::Migrate {
                worker,
                // One past the last child: out of the watched cgroup.
                to: random.usize(..=children),
            },
            68..69 => Self::Squeeze(random.usize(..children)),
            69..71 => Self::RemoveCgroup { kib },
            _ => Self::ToggleSwap,
        }
    }

    pub(super) fn take(&self, stage: &mut Stage) -> Result<()> {
        match self {
            Self::Charge(worker, order) | Self::Uncharged(worker, order) => {
                stage.workers[*worker].tell(order)
            }
            Self::Migrate { worker, to } => stage.migrate(*worker, *to),
            Self::Squeeze(child) => stage.squeeze(*child),
            Self::RemoveCgroup { kib } => stage.remove_a_cgroup(*kib),
            Self::ToggleSwap => stage.toggle_swap(),
        }
    }

    /// Whether all that it may add to the figure is charged while it happens.
    pub(super) fn is_charged(&self) -> bool {
        matches!(self, Self::Charge(..) | Self::RemoveCgroup { .. })
    }
}
