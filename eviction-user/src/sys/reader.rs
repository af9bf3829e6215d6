//! Reads a small kernel file again and again through one open descriptor, without allocating.

use nix::errno::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Larger than any `memory.stat` or `/proc/meminfo` seen (7.3 with all controllers: under 3 KiB).
const CAPACITY: usize = 16 * 1024;
/// A `seq_file` goes on as long as the next record fits into a page (`seq_read_iter()`, 5.10 to 7.3). No record of a file
/// that is read here is so long, so who gets less than this has got all, and needs no second call to hear that.
const SHORTER_THAN_ANY_PART: usize = 2048;

/// A kernel file that is read at every look.
#[derive(Debug)]
pub struct Reader {
    file: File,
    path: PathBuf,
}

/// Reading or understanding a kernel file failed.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("cannot read {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    #[error("{path}: {what}")]
    Format { path: PathBuf, what: &'static str },
}

impl ReadError {
    /// What is read has been removed: no such file, or (kernfs, once the file was open) no such device. Any other error
    /// says nothing about it.
    pub fn means_gone(&self) -> bool {
        matches!(self, Self::Io { source, .. }
            if matches!(source.raw_os_error().map(Errno::from_raw), Some(Errno::ENOENT | Errno::ENODEV)))
    }
}

impl Reader {
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        match File::open(path) {
            Ok(file) => Ok(Self {
                file,
                path: path.to_owned(),
            }),
            Err(source) => Err(ReadError::Io {
                path: path.to_owned(),
                source,
            }),
        }
    }

    /// Wraps a file that was opened relative to a held directory; `path` serves messages only.
    pub fn from_file(file: File, path: PathBuf) -> Self {
        Self { file, path }
    }

    /// For what else can be done with the open file.
    pub fn into_file(self) -> File {
        self.file
    }

    /// Hands the present content to `parse`, which returns `None` for what it cannot understand.
    pub fn read<T>(
        &self,
        what: &'static str,
        parse: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Result<T, ReadError> {
        let mut buffer = [0u8; CAPACITY];
        let mut filled = 0;
        // A seq_file hands out at most a page per call: read until it is at its end.
        loop {
            match self.file.read_at(&mut buffer[filled..], filled as u64) {
                Ok(n) => {
                    filled += n;
                    if n < SHORTER_THAN_ANY_PART {
                        break;
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => {
                    return Err(ReadError::Io {
                        path: self.path.clone(),
                        source,
                    });
                }
            }
            if filled == CAPACITY {
                break;
            }
        }
        parse(&buffer[..filled]).ok_or_else(|| ReadError::Format {
            path: self.path.clone(),
            what,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_file_holds_now() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.current");
        std::fs::write(&path, "1\n").unwrap();
        let reader = Reader::open(&path).unwrap();
        let length = |bytes: &[u8]| Some(bytes.len());
        assert_eq!(reader.read("a length", length).unwrap(), 2);
        std::fs::write(&path, "4096\n").unwrap();
        assert_eq!(reader.read("a length", length).unwrap(), 5);
    }

    #[test]
    fn a_long_file_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.stat");
        for length in [0, 2047, 2048, 4096, 10_000] {
            std::fs::write(&path, vec![b'x'; length]).unwrap();
            let found = Reader::open(&path).unwrap().read("", |b| Some(b.len()));
            assert_eq!(found.unwrap(), length);
        }
        // In many calls, a page or less each.
        let symbols = Reader::open(Path::new("/proc/kallsyms")).unwrap();
        assert!(symbols.read("", |b| Some(b.len())).unwrap() > CAPACITY - 4096);
    }

    #[test]
    fn only_a_missing_file_or_device_means_that_it_is_gone() {
        let failed = |errno: Errno| ReadError::Io {
            path: "cgroup.events".into(),
            source: errno.into(),
        };
        for (errno, gone) in [
            (Errno::ENOENT, true),
            (Errno::ENODEV, true),
            (Errno::EMFILE, false),
            (Errno::ENOMEM, false),
            (Errno::EACCES, false),
        ] {
            assert_eq!(failed(errno).means_gone(), gone, "{errno}");
        }
        let odd = ReadError::Format {
            path: "cgroup.events".into(),
            what: "has no populated line",
        };
        assert!(!odd.means_gone());
    }

    #[test]
    fn an_error_names_the_file() {
        let missing = Reader::open(Path::new("/nonexistent/memory.stat")).unwrap_err();
        assert!(
            missing.to_string().contains("/nonexistent/memory.stat"),
            "{missing}"
        );
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, "nonsense").unwrap();
        let bad = Reader::open(&path)
            .unwrap()
            .read("expected a number", |_| None::<()>)
            .unwrap_err();
        assert_eq!(
            bad.to_string(),
            format!("{}: expected a number", path.display())
        );
    }
}
