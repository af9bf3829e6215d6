//! Empty files, as many as a directory's file system takes.

use super::{ProgressPage, keep_pace, now_ns};
use std::fs::{File, create_dir_all};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Files per directory: keeps each directory's index small.
const PER_DIRECTORY: u64 = 2_000;

/// Makes `count` empty files below `dir` at `rate` a second (0: as fast as it goes), then waits to be killed.
pub fn make_inodes(
    dir: &Path,
    count: u64,
    rate: u64,
    progress: &ProgressPage,
) -> io::Result<std::convert::Infallible> {
    let began = now_ns();
    let mut done = 0;
    while done < count {
        let folder = dir.join(format!("d{}", done / PER_DIRECTORY));
        let made =
            create_dir_all(&folder).and_then(|()| File::create(folder.join(format!("f{done}"))));
        match made {
            Ok(_) => {
                done += 1;
                progress.advance(done, now_ns());
            }
            Err(e) if e.kind() == io::ErrorKind::StorageFull => {
                progress.refused.store(1, Ordering::Release);
                break;
            }
            Err(e) => return Err(e),
        }
        if rate > 0 {
            keep_pace(began, done, rate);
        }
    }
    loop {
        std::thread::park();
    }
}
