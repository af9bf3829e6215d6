//! A copy of a recording without what was decided: its inputs alone.

use super::codec::{self, EncodeError};
use super::directory::{self, DirectoryError};
use super::frame::Frame;
use super::reader::{OpenError, Reader, Spoiled};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StripError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Spoiled(#[from] Spoiled),
    #[error("{}: a record {source}", .path.display())]
    Encode { path: PathBuf, source: EncodeError },
    #[error("{}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("{}: exists already: name a new directory", .0.display())]
    Exists(PathBuf),
}

/// Copies the recordings that `from` means into the new directory `to`. What a crash tore off at the end
/// of a file is left out; the warnings tell where.
pub fn strip(from: &Path, to: &Path) -> Result<Vec<Spoiled>, StripError> {
    let files = directory::files(from)?;
    let write = |source| StripError::Write {
        path: to.to_owned(),
        source,
    };
    match fs::create_dir(to) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            return Err(StripError::Exists(to.to_owned()));
        }
        made => made.map_err(write)?,
    }
    let mut torn = Vec::new();
    for (number, file) in files.iter().enumerate() {
        match Reader::open(file) {
            Ok(reader) => torn.extend(copy(reader, &directory::file_in(to, number as u64 + 1))?),
            Err(OpenError::Head(spoiled)) if spoiled.is_torn() => torn.push(spoiled),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(torn)
}

fn copy(mut reader: Reader<io::BufReader<File>>, to: &Path) -> Result<Option<Spoiled>, StripError> {
    let write = |source| StripError::Write {
        path: to.to_owned(),
        source,
    };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(to)
        .map_err(write)?;
    let mut out = BufWriter::new(file);
    out.write_all(&codec::prefix()).map_err(write)?;
    let head = Frame::Head(Box::new(reader.head().clone()));
    let mut append = |frame: &Frame| {
        let bytes = codec::encode(frame).map_err(|source| StripError::Encode {
            path: to.to_owned(),
            source,
        })?;
        out.write_all(&bytes).map_err(write)
    };
    append(&head)?;
    let torn = loop {
        match reader.next_frame() {
            Ok(Some(frame @ (Frame::Input(_) | Frame::Gap(_)))) => append(&frame)?,
            Ok(Some(Frame::Head(_) | Frame::Decisions(_) | Frame::Note(_))) => {}
            Ok(None) => break None,
            Err(spoiled) if spoiled.is_torn() => break Some(spoiled),
            Err(spoiled) => return Err(spoiled.into()),
        }
    };
    out.flush().map_err(write)?;
    Ok(torn)
}
