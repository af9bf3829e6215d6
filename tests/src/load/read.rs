//! Page cache in use: a file that is read again and again.

use super::{ProgressPage, now_ns};
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

const PIECE: usize = 256 * 1024;

/// Reads the first `bytes` of `file` `passes` times, then waits to be killed.
pub fn read_again(
    file: &Path,
    bytes: u64,
    passes: u64,
    progress: &ProgressPage,
) -> io::Result<Infallible> {
    let mut file = File::open(file)?;
    let mut piece = vec![0; PIECE];
    let mut done = 0;
    for _ in 0..passes {
        file.rewind()?;
        let mut left = bytes;
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let read = file.read(&mut piece[..most])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            left -= read as u64;
            done += read as u64;
            progress.advance(done, now_ns());
        }
    }
    loop {
        std::thread::park();
    }
}
