//! The files of a directory: numbered, bounded in number and size.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PREFIX: &str = "eviction-";
const SUFFIX: &str = ".rec";

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// All files together.
    pub bytes: u64,
    pub files: u32,
}

impl Limits {
    /// The share of one file.
    pub fn file_bytes(self) -> u64 {
        self.bytes / u64::from(self.files.max(1))
    }

    /// After this a file is followed by the next: what is on its way then still fits the share.
    pub fn full_at(self) -> u64 {
        self.file_bytes() - self.file_bytes() / 16
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: there is no recording ({PREFIX}NUMBER{SUFFIX}) in this directory", .path.display())]
    Empty { path: PathBuf },
}

/// The recordings that a path means: itself, or those in it, oldest first.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, DirectoryError> {
    let io = |source| DirectoryError::Io {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(io)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let found = numbered(path).map_err(io)?;
    if found.is_empty() {
        return Err(DirectoryError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// A directory that recordings are written to.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    limits: Limits,
    next: u64,
}

impl Store {
    /// Makes the directory if need be. Numbers go on where earlier runs ended.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, DirectoryError> {
        let io = |source| DirectoryError::Io {
            path: path.to_owned(),
            source,
        };
        fs::create_dir_all(path).map_err(io)?;
        let last = numbered(path).map_err(io)?.last().map(|(n, _)| *n);
        Ok(Self {
            path: path.to_owned(),
            limits,
            next: last.map_or(1, |n| n.saturating_add(1)),
        })
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Where the next file goes.
    pub fn next_path(&mut self) -> PathBuf {
        let path = file_in(&self.path, self.next);
        self.next = self.next.saturating_add(1);
        path
    }

    /// Deletes the oldest files until another one of full size fits the limits.
    pub fn make_room(&self) -> io::Result<()> {
        let mut sizes = Vec::new();
        for (_, path) in numbered(&self.path)? {
            sizes.push((fs::metadata(&path)?.len(), path));
        }
        let mut total: u64 = sizes.iter().map(|(size, _)| size).sum();
        let mut count = sizes.len();
        let most_files = self.limits.files.saturating_sub(1) as usize;
        let most_bytes = self.limits.bytes - self.limits.file_bytes();
        for (size, path) in sizes {
            if count <= most_files && total <= most_bytes {
                break;
            }
            fs::remove_file(&path)?;
            total -= size;
            count -= 1;
        }
        Ok(())
    }
}

/// The file of that number.
pub(super) fn file_in(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{PREFIX}{number:08}{SUFFIX}"))
}

/// By number; other files are none of ours.
fn numbered(directory: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if let Some(number) = number_of(&entry.file_name()) {
            found.push((number, entry.path()));
        }
    }
    found.sort();
    Ok(found)
}

fn number_of(name: &OsStr) -> Option<u64> {
    let digits = name.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
    let plain = digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok()).flatten()
}
