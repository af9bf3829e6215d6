//! Inode use without eBPF: counts the inodes below the directories that the user gave for workloads,
//! again and again, on a thread of its own and for at most a tenth of its time.

use crate::sys::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use walkdir::WalkDir;

/// Rest between two rounds, as a multiple of the round's own length.
const REST: u32 = 9;
const SHORTEST_REST: Duration = Duration::from_millis(100);

/// The counts of the last finished round, by workload name.
#[derive(Debug, Clone)]
pub struct DirectoryScan {
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl DirectoryScan {
    /// Counts once, then goes on in the background until the last handle is dropped.
    pub fn start(directories: Vec<(String, PathBuf)>) -> io::Result<Self> {
        let counts = Arc::new(Mutex::new(round(&directories)));
        let shared = Arc::downgrade(&counts);
        std::thread::Builder::new()
            .name("eviction-scan".into())
            .spawn(move || {
                loop {
                    let began = clock::now();
                    let found = round(&directories);
                    let Some(counts) = shared.upgrade() else {
                        return;
                    };
                    *counts.lock().unwrap_or_else(PoisonError::into_inner) = found;
                    drop(counts);
                    let took = clock::elapsed_since(began);
                    std::thread::sleep((took * REST).max(SHORTEST_REST));
                }
            })?;
        Ok(Self { counts })
    }

    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

fn round(directories: &[(String, PathBuf)]) -> BTreeMap<String, u64> {
    directories
        .iter()
        .map(|(name, dir)| (name.clone(), inodes_below(dir)))
        .collect()
}

/// Inodes in and below `dir`, on its own file system only, each hard-linked one once. 0 if it is missing.
fn inodes_below(dir: &Path) -> u64 {
    let mut linked = BTreeSet::new();
    let entries = WalkDir::new(dir)
        .same_file_system(true)
        .into_iter()
        .flatten();
    let counted = entries.filter(|entry| {
        if entry.file_type().is_dir() {
            return true;
        }
        // A name alone does not tell whether its inode has others; a file that vanished counts no more.
        entry
            .metadata()
            .is_ok_and(|m| m.nlink() == 1 || linked.insert(m.ino()))
    });
    counted.count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hard_links_count_once_and_directories_count() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("a"), "").unwrap();
        std::fs::hard_link(dir.path().join("a"), dir.path().join("sub/b")).unwrap();
        std::fs::write(dir.path().join("c"), "").unwrap();
        assert_eq!(
            inodes_below(dir.path()),
            4,
            "the directory, sub, a (= b) and c"
        );
        assert_eq!(inodes_below(&dir.path().join("missing")), 0);
    }

    #[test]
    fn later_files_are_seen_by_a_later_round() {
        let dir = tempfile::tempdir().unwrap();
        let scan = DirectoryScan::start(vec![("web".into(), dir.path().to_owned())]).unwrap();
        assert_eq!(scan.counts()["web"], 1);
        std::fs::write(dir.path().join("a"), "").unwrap();
        let seen = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            scan.counts()["web"] == 2
        });
        assert!(seen, "{:?}", scan.counts());
    }
}
