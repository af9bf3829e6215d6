//! User cases 14 and 15: a workload whose file is in the page cache, read often enough to count as active.
//! The kubelet's figure takes that for used memory and evicts it; the reclaim-aware one does not, and still
//! finds the hog that takes memory for good.

use super::{Evictor, Programs, TestTree, Workload, wait_until};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const LIMIT: u64 = 128 * MIB;
const THRESHOLD: u64 = 64 * MIB;
/// More than the line leaves, less than the limit.
pub const FILE: u64 = 96 * MIB;
/// The second reading makes a page active (`folio_mark_accessed`); the third is for those that raced.
const PASSES: u64 = 3;
/// It goes on after that: a page that was still on its way to a list when it was read again becomes active by a later pass.
const ALL_PASSES: u64 = 30;
const PATIENCE: Duration = Duration::from_secs(120);

/// Who had to go.
#[derive(Debug, PartialEq, Eq, serde::Serialize)]
pub struct CacheOutcome {
    /// By the kubelet's figure.
    pub exact_victim: String,
    /// By the reclaim-aware figure, with a hog beside the reader.
    pub aware_victim: String,
    /// What the hog held by then.
    pub hog_bytes: u64,
    pub oom_kills: u64,
}

/// `file` has at least [`FILE`] bytes and is not in the page cache; a sparse one will do.
pub fn run(programs: &Programs, file: &Path, hog_rate: u64) -> Result<CacheOutcome> {
    let folder = tempfile::tempdir()?;
    let exact_victim = exact(programs, file, folder.path())?;
    let tree = TestTree::create("cache-aware", LIMIT)?;
    let mut reader = reader(programs, &tree, file, folder.path())?;
    let config = folder.path().join("eviction.yaml");
    std::fs::write(
        &config,
        format!(
            "apiVersion: eviction.dev/v1alpha1\nkind: EvictionConfiguration\nreclaimAwareMemory: true\n\
             evictionHard:\n  allocatableMemory.available: \"{THRESHOLD}\"\n"
        ),
    )?;
    let arguments = [
        format!("--config={}", config.display()),
        format!("--workload=reader:request={LIMIT}"),
    ];
    let mut evictor = evictor(programs, &tree, &arguments)?;
    let hog = ["hog", &LIMIT.to_string(), &hog_rate.to_string()];
    let hog = Workload::start(programs, &tree, folder.path(), "hog", &hog, 0)?;
    let decision = evictor.wait_for("decision", PATIENCE)?;
    evictor.wait_for("gone", PATIENCE)?;
    ensure!(
        reader.is_alive(),
        "the reader was killed: {:?}",
        evictor.seen
    );
    Ok(CacheOutcome {
        exact_victim,
        aware_victim: decision.text("victim").to_owned(),
        hog_bytes: hog.done(),
        oom_kills: tree.oom_kills()?,
    })
}

impl CacheOutcome {
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut expect = |holds: bool, what: &str| {
            if !holds {
                faults.push(format!("{what}: {self:?}"));
            }
        };
        expect(
            self.exact_victim == "reader",
            "the kubelet's figure evicts the reader",
        );
        expect(
            self.aware_victim == "hog",
            "the reclaim-aware figure evicts the hog",
        );
        // The line is 64 MiB below the limit; the reader's own memory is a few MiB of it.
        expect(
            self.hog_bytes > THRESHOLD / 2,
            "cache alone did not bring the eviction about",
        );
        expect(self.oom_kills == 0, "no OOM kill");
        faults
    }
}

fn exact(programs: &Programs, file: &Path, folder: &Path) -> Result<String> {
    let tree = TestTree::create("cache-exact", LIMIT)?;
    let _reader = reader(programs, &tree, file, folder)?;
    let hard = format!("--eviction-hard=allocatableMemory.available<{THRESHOLD}");
    let mut evictor = evictor(programs, &tree, &[hard])?;
    let decision = evictor.wait_for("decision", PATIENCE)?;
    evictor.wait_for("gone", PATIENCE)?;
    Ok(decision.text("victim").to_owned())
}

fn evictor(programs: &Programs, tree: &TestTree, arguments: &[String]) -> Result<Evictor> {
    let mut all = vec![
        "--platform=host".to_owned(),
        format!("--root={}", tree.root().display()),
    ];
    all.extend_from_slice(arguments);
    let mut evictor = Evictor::start(programs, &all)?;
    evictor.wait_for("started", PATIENCE)?;
    Ok(evictor)
}

/// A workload that holds the file in the cache; its pages are charged to it and count as used.
fn reader(programs: &Programs, tree: &TestTree, file: &Path, folder: &Path) -> Result<Workload> {
    drop_cache(file)?;
    let path = file.to_str().context("a path that is not UTF-8")?;
    let args = ["read", path, &FILE.to_string(), &ALL_PASSES.to_string()];
    let mut reader = Workload::start(programs, tree, folder, "reader", &args, 0)?;
    reader.reaches(FILE * PASSES, PATIENCE)?;
    // The kernel moves pages to the active list in batches (`lru_add_drain`).
    let active = wait_until(Duration::from_secs(30), || {
        tree.active_file().ok().filter(|&bytes| bytes > THRESHOLD)
    });
    active.context(
        "the file's pages did not become active; where the multi-generational LRU rules they stay \
         inactive, and the kubelet's figure is no problem (/sys/kernel/mm/lru_gen/enabled)",
    )?;
    Ok(reader)
}

/// Whoever reads it next is charged.
fn drop_cache(file: &Path) -> Result<()> {
    let file = std::fs::File::open(file)?;
    file.sync_all()?;
    nix::fcntl::posix_fadvise(
        &file,
        0,
        0,
        nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED,
    )?;
    Ok(())
}
