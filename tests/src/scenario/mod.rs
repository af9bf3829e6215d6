//! The stories that the demo, the host suite and the guests share: real cgroups, real loads, the real
//! `eviction` binary, and an oracle that reads the kernel's own files.

pub mod cache;
pub mod crossing;
pub mod demo;
mod disk;
mod evictor;
mod fuse;
mod inodes;
pub mod interrupt;
mod memory;
mod namespace;
mod oom;
pub mod pids;
pub mod soundness;
mod tree;
mod workload;

pub use disk::{Disk, DiskError};
pub use evictor::{Evictor, EvictorError, Record};
pub use fuse::Fuse;
pub use inodes::{InodeOutcome, InodeStory};
pub use memory::{Events, MemoryOutcome, MemoryStory};
pub use namespace::in_namespace;
pub use oom::{OomStory, Told};
pub use tree::TestTree;
pub use workload::Workload;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The programs under test, which lie in one folder.
#[derive(Debug, Clone)]
pub struct Programs {
    pub eviction: PathBuf,
    pub load: PathBuf,
}

impl Programs {
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            eviction: folder.join("eviction"),
            load: folder.join("eviction-load"),
        }
    }
}

/// Asks every few milliseconds until `found` says yes; `None` when `limit` has passed, or on Ctrl-C.
pub fn wait_until<T>(limit: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let began = crate::load::now_ns();
    loop {
        if let Some(value) = found() {
            return Some(value);
        }
        if interrupt::happened() || crate::load::now_ns() - began > limit.as_nanos() as u64 {
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
