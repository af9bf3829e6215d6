//! Appends frames to the files of a directory.

use super::codec::{self, EncodeError};
use super::directory::Store;
use super::frame::{Frame, Head, Platform};
use crate::policy::EngineConfig;
use crate::policy::engine::Checkpoint;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What all files of one run have in common.
#[derive(Debug, Clone)]
pub struct RunFacts {
    pub run: String,
    pub epoch_nanos: i64,
    pub platform: Platform,
    pub dry_run: bool,
    pub config: EngineConfig,
}

#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("a record {0}")]
    Encode(#[from] EncodeError),
}

/// One file at a time; each frame goes out whole with one write, so that a crash tears at most the last.
#[derive(Debug)]
pub struct Writer {
    store: Store,
    facts: RunFacts,
    part: u32,
    current: Current,
}

#[derive(Debug)]
struct Current {
    file: File,
    path: PathBuf,
    /// Where the last whole frame ends.
    length: u64,
}

impl Writer {
    /// Starts the first file of a run.
    pub fn create(mut store: Store, facts: RunFacts) -> Result<Self, WriteError> {
        let current = begin(&mut store, head(&facts, 0, None))?;
        Ok(Self {
            store,
            facts,
            part: 0,
            current,
        })
    }

    /// Goes on in a new file, which starts with the engine's state.
    pub fn rotate(&mut self, resume: Checkpoint) -> Result<(), WriteError> {
        let part = self.part.saturating_add(1);
        self.current = begin(&mut self.store, head(&self.facts, part, Some(resume)))?;
        self.part = part;
        Ok(())
    }

    pub fn is_full(&self) -> bool {
        self.current.length >= self.store.limits().full_at()
    }

    /// Appends the frames that belong together. On an error the file is cut back to what it was.
    pub fn append(&mut self, frames: &[Frame]) -> Result<(), WriteError> {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend(codec::encode(frame)?);
        }
        let current = &mut self.current;
        if let Err(source) = current.file.write_all(&bytes) {
            // Best effort: a reader takes what is left of it for a torn record.
            let _ = current.file.set_len(current.length);
            return Err(at(&current.path, source));
        }
        current.length += bytes.len() as u64;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn swap_file(&mut self, file: File) -> File {
        std::mem::replace(&mut self.current.file, file)
    }

    /// Makes what was written survive the end of the machine.
    pub fn sync(&mut self) -> Result<(), WriteError> {
        let current = &self.current;
        current
            .file
            .sync_data()
            .map_err(|source| at(&current.path, source))
    }
}

fn at(path: &Path, source: io::Error) -> WriteError {
    WriteError::Io {
        path: path.to_owned(),
        source,
    }
}

fn head(facts: &RunFacts, part: u32, resume: Option<Checkpoint>) -> Frame {
    Frame::Head(Box::new(Head {
        program: concat!("eviction ", env!("CARGO_PKG_VERSION")).to_owned(),
        run: facts.run.clone(),
        part,
        epoch_nanos: facts.epoch_nanos,
        platform: facts.platform,
        dry_run: facts.dry_run,
        config: facts.config.clone(),
        resume,
    }))
}

fn begin(store: &mut Store, head: Frame) -> Result<Current, WriteError> {
    let mut start = codec::prefix().to_vec();
    start.extend(codec::encode(&head)?);
    let path = store.next_path();
    let written = store.make_room().and_then(|()| write_new(&path, &start));
    let file = written.map_err(|source| at(&path, source))?;
    Ok(Current {
        file,
        path,
        length: start.len() as u64,
    })
}

fn write_new(path: &Path, start: &[u8]) -> io::Result<File> {
    // Names of pods and their labels are not for everybody.
    let mut file = OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    if let Err(error) = file.write_all(start) {
        // A file without a head is of no use; the first error says why there is none.
        let _ = std::fs::remove_file(path);
        return Err(error);
    }
    Ok(file)
}
