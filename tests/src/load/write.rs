//! A file that grows at a set rate.

use super::{ProgressPage, keep_pace, now_ns};
use std::fs::{File, create_dir_all};
use std::io::{self, Write};
use std::path::Path;

const BLOCK: u64 = 64 * 1024;

/// Writes `bytes` into `file` at `rate` bytes a second (0: as fast as it goes), then waits to be killed.
pub fn write_file(
    file: &Path,
    bytes: u64,
    rate: u64,
    progress: &ProgressPage,
) -> io::Result<std::convert::Infallible> {
    file.parent().map_or(Ok(()), create_dir_all)?;
    let mut file = File::create(file)?;
    let block = vec![7; BLOCK as usize];
    let began = now_ns();
    for done in (1..=bytes / BLOCK).map(|blocks| blocks * BLOCK) {
        file.write_all(&block)?;
        progress.advance(done, now_ns());
        if rate > 0 {
            keep_pace(began, done, rate);
        }
    }
    loop {
        std::thread::park();
    }
}
