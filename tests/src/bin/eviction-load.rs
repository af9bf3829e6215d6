//! A workload for tests and the demo: joins a cgroup, then uses up memory, inodes or PIDs.

use clap::{Parser, Subcommand};
use eviction_tests::load::{
    Progress, fork_processes, hog, hold, make_inodes, read_again, worker, write_file,
};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Uses up memory, inodes or PIDs inside a cgroup, for tests.
#[derive(Parser)]
struct Args {
    /// Cgroup directories to join first (one per hierarchy).
    #[arg(long)]
    cgroup: Vec<PathBuf>,
    /// File of the shared progress page; without it nobody hears how far the load is.
    #[arg(long)]
    progress: Option<PathBuf>,
    /// Do not end when asked to.
    #[arg(long)]
    ignore_sigterm: bool,
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Takes memory and keeps it.
    Hold { bytes: u64 },
    /// Takes memory at a rate in bytes a second; 0 = as fast as it goes.
    Hog { bytes: u64, rate: u64 },
    /// Reads the start of a file again and again, then stays.
    Read {
        file: PathBuf,
        bytes: u64,
        passes: u64,
    },
    /// Writes a file at a rate in bytes a second, then stays; 0 = as fast as it goes.
    Write {
        file: PathBuf,
        bytes: u64,
        rate: u64,
    },
    /// Makes empty files at a rate a second; 0 = as fast as it goes.
    Inodes { dir: PathBuf, count: u64, rate: u64 },
    /// Does what is told on standard input; has no progress page.
    Worker,
    /// Forks processes that do nothing at a rate a second; 0 = as fast as it goes.
    Fork { count: u64, rate: u64 },
}

fn main() -> io::Result<()> {
    let args = Args::parse();
    for group in &args.cgroup {
        std::fs::write(group.join("cgroup.procs"), "0")?;
    }
    if args.ignore_sigterm {
        // Whoever asks is heard by a flag that nobody reads.
        signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::default())?;
    }
    let page = || match &args.progress {
        Some(file) => Progress::open(file),
        None => Progress::unshared(),
    };
    let never = match args.load {
        Load::Hold { bytes } => hold(bytes, page()?.page())?,
        Load::Hog { bytes, rate } => hog(bytes, rate, page()?.page())?,
        Load::Inodes { dir, count, rate } => make_inodes(&dir, count, rate, page()?.page())?,
        Load::Read {
            file,
            bytes,
            passes,
        } => read_again(&file, bytes, passes, page()?.page())?,
        Load::Write { file, bytes, rate } => write_file(&file, bytes, rate, page()?.page())?,
        Load::Fork { count, rate } => fork_processes(count, rate, page()?.page())?,
        Load::Worker => return worker::obey(),
    };
    match never {}
}
