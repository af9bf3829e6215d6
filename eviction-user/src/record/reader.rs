//! Reads one file, as far as it can be read.

use super::codec::{Damage, FRAME_HEADER_LEN, FrameHeader, MAGIC, PREFIX_LEN, VERSION};
use super::frame::{Frame, Head};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: not a recording of `eviction run --record`", .path.display())]
    NotARecording { path: PathBuf },
    #[error(
        "{}: a recording of version {found}, this program reads version {VERSION}: replay it with the `eviction` that wrote it",
        .path.display()
    )]
    Version { path: PathBuf, found: u16 },
    #[error("{0}; nothing of it can be read")]
    Head(#[from] Spoiled),
}

/// Where and why a file cannot be read on.
#[derive(Debug, thiserror::Error)]
#[error("{}: at byte {offset}: {damage}", .path.display())]
pub struct Spoiled {
    pub path: PathBuf,
    /// Where the record starts.
    pub offset: u64,
    pub damage: Damage,
}

impl Spoiled {
    /// Whether only the end is missing, as after a crash.
    pub fn is_torn(&self) -> bool {
        matches!(self.damage, Damage::Torn)
    }
}

#[derive(Debug)]
pub struct Reader<R> {
    path: PathBuf,
    input: R,
    offset: u64,
    head: Head,
}

impl Reader<BufReader<File>> {
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let file = File::open(path).map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::new(path, BufReader::new(file))
    }
}

impl<R: Read> Reader<R> {
    /// `path` is for messages.
    pub fn new(path: &Path, mut input: R) -> Result<Self, OpenError> {
        let path = path.to_owned();
        let mut prefix = Vec::new();
        if let Err(source) = input
            .by_ref()
            .take(PREFIX_LEN as u64)
            .read_to_end(&mut prefix)
        {
            return Err(OpenError::Io { path, source });
        }
        let (magic, version) = prefix.split_at(prefix.len().min(MAGIC.len()));
        if magic.is_empty() || !MAGIC.starts_with(magic) {
            return Err(OpenError::NotARecording { path });
        }
        let Ok(version) = version.try_into().map(u16::from_le_bytes) else {
            return Err(spoiled(&path, 0, Damage::Torn).into());
        };
        if version != VERSION {
            return Err(OpenError::Version {
                path,
                found: version,
            });
        }
        let mut offset = PREFIX_LEN as u64;
        match read_frame(&mut input, &mut offset) {
            Ok(Some(Frame::Head(head))) => Ok(Self {
                path,
                input,
                offset,
                head: *head,
            }),
            Ok(Some(_)) => Err(OpenError::NotARecording { path }),
            Ok(None) => Err(spoiled(&path, offset, Damage::Torn).into()),
            Err(damage) => Err(spoiled(&path, offset, damage).into()),
        }
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The next frame after the head; `None` at the end. After an error nothing more can be read.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Spoiled> {
        match read_frame(&mut self.input, &mut self.offset) {
            Ok(Some(Frame::Head(_))) => Err(spoiled(&self.path, self.offset, Damage::SecondHead)),
            Ok(frame) => Ok(frame),
            Err(damage) => Err(spoiled(&self.path, self.offset, damage)),
        }
    }
}

fn spoiled(path: &Path, offset: u64, damage: Damage) -> Spoiled {
    Spoiled {
        path: path.to_owned(),
        offset,
        damage,
    }
}

/// Advances `offset` past a frame that was read.
fn read_frame(input: &mut impl Read, offset: &mut u64) -> Result<Option<Frame>, Damage> {
    let mut header = Vec::with_capacity(FRAME_HEADER_LEN);
    read_up_to(input, FRAME_HEADER_LEN as u64, &mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let Ok(header) = <[u8; FRAME_HEADER_LEN]>::try_from(header.as_slice()) else {
        return Err(Damage::Torn);
    };
    // After a crash of the machine a file may be longer than what was written: zeros up to its end.
    let header = match FrameHeader::read(header) {
        Err(Damage::Length) if header == [0; FRAME_HEADER_LEN] && only_zeros(input)? => {
            return Err(Damage::Torn);
        }
        read => read?,
    };
    let mut payload = Vec::new();
    read_up_to(input, u64::from(header.length), &mut payload)?;
    if payload.len() < header.length as usize {
        return Err(Damage::Torn);
    }
    match header.decode(&payload) {
        Ok(frame) => {
            *offset += (FRAME_HEADER_LEN + payload.len()) as u64;
            Ok(Some(frame))
        }
        // A last record whose blocks never reached the disk has its length and nothing else.
        Err(Damage::Checksum) if only_zeros(input)? => Err(Damage::Torn),
        Err(damage) => Err(damage),
    }
}

fn read_up_to(input: &mut impl Read, length: u64, into: &mut Vec<u8>) -> Result<(), Damage> {
    input.take(length).read_to_end(into)?;
    Ok(())
}

/// Whether zeros or nothing follow.
fn only_zeros(input: &mut impl Read) -> Result<bool, Damage> {
    let mut buffer = [0; 4096];
    loop {
        match input.read(&mut buffer)? {
            0 => return Ok(true),
            n if buffer[..n].iter().any(|byte| *byte != 0) => return Ok(false),
            _ => {}
        }
    }
}
