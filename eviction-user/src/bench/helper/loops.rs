//! What a node does all day, many times over: page faults, new files, writes to the page cache, forks.

use super::Loop;
use super::memory::Memory;
use crate::sys::cgroup::PAGE_SIZE;
use crate::sys::clock;
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, fork};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// How long it took, in nanoseconds. What has to be made ready and cleared away is not counted.
pub(super) fn run(what: &Loop) -> io::Result<u64> {
    match what {
        Loop::PageFaults { count } => page_faults(*count),
        Loop::CreateFiles { directory, count } => create_files(directory, *count),
        Loop::Writes { directory, count } => writes(directory, *count),
        Loop::Forks { count } => forks(*count),
    }
}

fn timed(mut body: impl FnMut() -> io::Result<()>) -> io::Result<u64> {
    let began = clock::now();
    body()?;
    Ok(u64::try_from(clock::elapsed_since(began).as_nanos()).unwrap_or(u64::MAX))
}

fn page_faults(count: u64) -> io::Result<u64> {
    let mut memory = Memory::map(count * PAGE_SIZE)?;
    // The page tables are there by then.
    (0..count).try_for_each(|_| memory.touch())?;
    memory.release()?;
    timed(|| (0..count).try_for_each(|_| memory.touch()))
}

fn create_files(directory: &Path, count: u64) -> io::Result<u64> {
    let folder = directory.join("files");
    fs::create_dir(&folder)?;
    let names: Vec<_> = (0..count).map(|n| folder.join(n.to_string())).collect();
    let took = timed(|| {
        let mut names = names.iter();
        names.try_for_each(|name| File::create_new(name).map(drop))
    });
    fs::remove_dir_all(&folder)?;
    took
}

fn writes(directory: &Path, count: u64) -> io::Result<u64> {
    let path = directory.join("file");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).open(&path)?;
    let block = [1; PAGE_SIZE as usize];
    let took = timed(|| (0..count).try_for_each(|_| file.write_all(&block)));
    // Gone before the kernel begins to write it back.
    fs::remove_file(&path)?;
    took
}

fn forks(count: u64) -> io::Result<u64> {
    timed(|| (0..count).try_for_each(|_| fork_and_wait()))
}

fn fork_and_wait() -> io::Result<()> {
    // SAFETY: the helper has one thread, and the child ends at once without running anything of ours.
    match unsafe { fork() }? {
        ForkResult::Child => {
            // SAFETY: ends the process, without exit handlers.
            unsafe { nix::libc::_exit(0) }
        }
        ForkResult::Parent { child } => {
            waitpid(child, None)?;
            Ok(())
        }
    }
}
