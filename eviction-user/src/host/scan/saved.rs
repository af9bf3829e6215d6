//! What a scan leaves behind for the next process: the last figures, and the pass that was under way.

use super::walk::{Top, Walk};
use super::{Round, ScanResult, ScanTarget, Scanned};
use crate::model::{Span, Timestamp};
use crate::sys::clock;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

#[derive(Debug, thiserror::Error)]
#[error("cannot write {file}: {source}")]
pub(super) struct SaveError {
    file: String,
    source: io::Error,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SavedScan {
    found: Vec<SavedFigures>,
    walk: Option<SavedWalk>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SavedFigures {
    workload: String,
    dir: Vec<u8>,
    bytes: u64,
    inodes: u64,
    device: u64,
    unreadable: u64,
    began: SystemTime,
}

/// A pass under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct SavedWalk {
    workload: String,
    dir: Vec<u8>,
    /// Of the directory: another one under the same name is no reason to go on.
    device: u64,
    inode: u64,
    /// Position among the targets.
    at: usize,
    began: SystemTime,
    walk: Walk,
}

impl SavedScan {
    pub(super) fn new(found: &ScanResult, walk: Option<SavedWalk>) -> Self {
        let figures = found.iter().map(|(target, found)| SavedFigures {
            workload: target.workload.clone(),
            dir: bytes(&target.dir),
            bytes: found.bytes,
            inodes: found.inodes,
            device: found.device,
            unreadable: found.unreadable,
            began: wall(found.began),
        });
        Self {
            found: figures.collect(),
            walk,
        }
    }

    /// Nothing if there is no file, or if it makes no sense: a scan can always begin anew.
    pub(super) fn read(file: &Path) -> Self {
        let opened = match File::open(file) {
            Ok(opened) => opened,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Self::default(),
            Err(e) => {
                tracing::warn!("cannot read {}: {e}; scanning anew", file.display());
                return Self::default();
            }
        };
        ciborium::from_reader(BufReader::new(opened)).unwrap_or_else(|e| {
            tracing::warn!("{} makes no sense ({e}); scanning anew", file.display());
            Self::default()
        })
    }

    /// The old content stays until the new one is complete.
    pub(super) fn write(&self, file: &Path) -> Result<(), SaveError> {
        let failed = |source| SaveError {
            file: file.display().to_string(),
            source,
        };
        let next = file.with_extension("next");
        let mut out = BufWriter::new(File::create(&next).map_err(failed)?);
        ciborium::into_writer(self, &mut out).map_err(|e| failed(io::Error::other(e)))?;
        out.flush().map_err(failed)?;
        std::fs::rename(&next, file).map_err(failed)
    }

    /// The figures of those that are still to be scanned.
    pub(super) fn found(&self, targets: &[ScanTarget]) -> ScanResult {
        let known = self.found.iter().filter_map(|saved| {
            let is_it =
                |t: &&ScanTarget| t.workload == saved.workload && bytes(&t.dir) == saved.dir;
            Some((targets.iter().find(is_it)?, saved))
        });
        let figures = known.map(|(target, saved)| {
            let scanned = Scanned {
                bytes: saved.bytes,
                inodes: saved.inodes,
                device: saved.device,
                unreadable: saved.unreadable,
                began: monotonic(saved.began),
                round: 0,
            };
            (target.clone(), scanned)
        });
        figures.collect()
    }

    /// The pass to go on with.
    pub(super) fn unfinished(&self, targets: &[ScanTarget]) -> Option<SavedWalk> {
        let walk = self.walk.clone()?;
        let target = targets.get(walk.at)?;
        let top = Top::open(&target.dir).ok()?;
        let is_same = target.workload == walk.workload
            && bytes(&target.dir) == walk.dir
            && (top.device(), top.inode()) == (walk.device, walk.inode);
        is_same.then_some(walk)
    }
}

impl SavedWalk {
    pub(super) fn new(target: &ScanTarget, top: &Top, round: &Round, walk: &Walk) -> Self {
        Self {
            workload: target.workload.clone(),
            dir: bytes(&target.dir),
            device: top.device(),
            inode: top.inode(),
            at: round.at,
            began: wall(round.began),
            walk: walk.clone(),
        }
    }

    pub(super) fn round(self) -> Round {
        Round {
            number: 0,
            began: monotonic(self.began),
            at: self.at,
            walk: Some(self.walk),
        }
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The monotonic clock begins anew at every boot; wall-clock time does not.
fn wall(at: Timestamp) -> SystemTime {
    SystemTime::now() - clock::elapsed_since(at)
}

fn monotonic(at: SystemTime) -> Timestamp {
    let age = SystemTime::now()
        .duration_since(at)
        .unwrap_or(Duration::ZERO);
    let nanos = i64::try_from(age.as_nanos()).unwrap_or(i64::MAX);
    clock::now().plus(Span::from_nanos(-nanos))
}
