//! What has to agree, for each file system: the figures of `storage-facts.md`.

use std::path::Path;

use anyhow::Result;
use eviction_user::bpf::Rung;

use super::{Fs, operations::Takes};

/// All figures at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) available: i64,
    pub(super) inodes_used: i64,
    pub(super) has_table: bool,
    /// Net growth, all cgroups together.
    pub(super) grown: i64,
    pub(super) inodes_grown: i64,
    pub(super) spent: u64,
}

/// The differences of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) dropped: i64,
    pub(super) grown: i64,
    pub(super) spent: u64,
    inodes_used: i64,
    inodes_grown: i64,
}

impl Sample {
    pub(super) fn between(before: &Self, after: &Self) -> Change {
        Change {
            dropped: before.available - after.available,
            grown: after.grown - before.grown,
            spent: after.spent - before.spent,
            inodes_used: after.inodes_used - before.inodes_used,
            inodes_grown: after.inodes_grown - before.inodes_grown,
        }
    }
}

/// How the growth has to compare with what `statfs` lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Growth {
    Equal,
    /// Never under; over by at most 2 % of what was spent.
    SlightlyOver,
    /// Nothing tells what is given back, or when.
    NotCompared,
}

pub struct Rules {
    growth: Growth,
    /// Spending shows in `statfs` only when a transaction commits.
    commits: bool,
    /// Made and freed inodes are all seen.
    inodes: bool,
    /// By what space may be taken and seen; `None`: by all.
    seen: Option<&'static [Takes]>,
}

/// Over this share of what was spent, the growth would mislead the ranking.
const OVER_PERCENT: i64 = 2;

impl Rules {
    pub fn of(fs: Fs, rung: Rung, inodes: Option<Rung>) -> Self {
        let growth = match (fs, rung) {
            (_, Rung::FentryWritten | Rung::KprobeWritten | Rung::TraceWritten) => {
                Growth::NotCompared
            }
            (Fs::Ext4 | Fs::Overlay, _) => Growth::SlightlyOver,
            (Fs::Xfs, Rung::KprobeXfsBytes) => Growth::Equal,
            _ => Growth::NotCompared,
        };
        // The tracepoints of xfs count attempts, and none of them tells of an inode freed.
        let inodes = match inodes {
            Some(Rung::FentryInode | Rung::KprobeInode) => true,
            Some(Rung::TraceExt4) => matches!(fs, Fs::Ext4 | Fs::Overlay),
            _ => false,
        };
        // What is seen of writes, and what the facts page says that it leaves out.
        let seen: Option<&[Takes]> = match (rung, fs) {
            (Rung::TraceWritten, _) => Some(&[Takes::Pages]),
            (Rung::FentryWritten | Rung::KprobeWritten, Fs::Vfat) => {
                Some(&[Takes::Pages, Takes::Calls])
            }
            _ => None,
        };
        Self {
            seen,
            inodes,
            growth,
            commits: fs == Fs::Btrfs,
        }
    }

    /// Whether what takes space so is compared.
    pub(super) fn sees(&self, takes: Takes) -> bool {
        self.seen.is_none_or(|seen| seen.contains(&takes))
    }

    /// Waits for delayed work.
    pub(super) fn settle(&self, path: &Path) -> Result<()> {
        let directory = std::fs::File::open(path)?;
        nix::unistd::syncfs(&directory)?;
        if self.commits {
            // Freed extents come back with the commit after the one that frees them.
            nix::unistd::syncfs(&directory)?;
        }
        Ok(())
    }

    /// What may never be, not even for a moment.
    pub(super) fn at_once(&self, before: &Sample, now: &Sample) -> Option<String> {
        let change = Sample::between(before, now);
        let under = i128::from(change.spent) < i128::from(change.dropped);
        under.then(|| format!("spent less than statfs lost: {change:?}"))
    }

    pub(super) fn judge(
        &self,
        what: &str,
        before: &Sample,
        after: &Sample,
        inodes: bool,
    ) -> Vec<String> {
        let change = Sample::between(before, after);
        let mut faults = Vec::new();
        faults.extend(self.at_once(before, after));
        let over = change.grown - change.dropped;
        let spent = i64::try_from(change.spent).unwrap_or(i64::MAX);
        let wrong = match self.growth {
            Growth::Equal => over != 0,
            Growth::SlightlyOver => over < 0 || over > spent * OVER_PERCENT / 100,
            Growth::NotCompared => false,
        };
        if wrong {
            faults.push(format!("the growth is {over} bytes off: {change:?}"));
        }
        if inodes && self.inodes && after.has_table && change.inodes_grown != change.inodes_used {
            faults.push(format!(
                "statfs counts {} inodes more, the kernel side {}",
                change.inodes_used, change.inodes_grown
            ));
        }
        faults
            .into_iter()
            .map(|fault| format!("{what}: {fault}"))
            .collect()
    }
}
