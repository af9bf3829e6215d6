//! From a frame to bytes and back.

use super::frame::Frame;
use crc32fast::Hasher;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::io::{self, Read};

/// How every recording starts.
pub const MAGIC: [u8; 8] = *b"EVICTREC";
/// To be raised when a frame of an earlier program would be misread. A new optional field needs none:
/// fields have names, and unknown ones are passed over.
pub const VERSION: u16 = 1;

/// Magic and version.
pub const PREFIX_LEN: usize = MAGIC.len() + 2;
/// Before each payload: its length, the complement of that, a checksum. The complement tells a damaged
/// length, after which nothing can be found, from a file that ends too early.
pub const FRAME_HEADER_LEN: usize = 12;

/// Far beyond any frame: a length above it is damage, not data.
const MAX_PAYLOAD: u32 = 64 << 20;
/// And so is a payload that unfolds to more than this.
const MAX_UNFOLDED: u64 = 1 << 30;

pub fn prefix() -> [u8; PREFIX_LEN] {
    let mut bytes = [0; PREFIX_LEN];
    bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
    bytes[MAGIC.len()..].copy_from_slice(&VERSION.to_le_bytes());
    bytes
}

/// Why a frame cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Damage {
    #[error("the file ends inside a record")]
    Torn,
    #[error("the length of a record is damaged")]
    Length,
    #[error("the checksum of a record is wrong")]
    Checksum,
    #[error("a record has the right checksum but cannot be understood: {0}")]
    Content(#[from] ciborium::de::Error<io::Error>),
    #[error("the head of another file is inside this one")]
    SecondHead,
    #[error("cannot be read on: {0}")]
    Io(#[from] io::Error),
}

#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    #[error("cannot be written as CBOR: {0}")]
    Cbor(#[from] ciborium::ser::Error<io::Error>),
    #[error("cannot be compressed: {0}")]
    Deflate(#[from] io::Error),
    #[error("is larger than {MAX_PAYLOAD} bytes")]
    TooLarge,
}

/// The frame with its header, ready to be appended.
pub fn encode(frame: &Frame) -> Result<Vec<u8>, EncodeError> {
    let mut deflate = DeflateEncoder::new(vec![0; FRAME_HEADER_LEN], Compression::fast());
    ciborium::into_writer(frame, &mut deflate)?;
    let mut bytes = deflate.finish()?;
    let length = u32::try_from(bytes.len() - FRAME_HEADER_LEN)
        .ok()
        .filter(|length| *length <= MAX_PAYLOAD)
        .ok_or(EncodeError::TooLarge)?;
    let checksum = checksum(length, &bytes[FRAME_HEADER_LEN..]);
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    bytes[4..8].copy_from_slice(&(!length).to_le_bytes());
    bytes[8..FRAME_HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

/// What precedes a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    pub length: u32,
    checksum: u32,
}

impl FrameHeader {
    pub fn read(bytes: [u8; FRAME_HEADER_LEN]) -> Result<Self, Damage> {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]);
        let complement = u32::from_le_bytes([e, f, g, h]);
        if length != !complement || length > MAX_PAYLOAD {
            return Err(Damage::Length);
        }
        Ok(Self {
            length,
            checksum: u32::from_le_bytes([i, j, k, l]),
        })
    }

    pub fn decode(self, payload: &[u8]) -> Result<Frame, Damage> {
        if checksum(self.length, payload) != self.checksum {
            return Err(Damage::Checksum);
        }
        let unfolded = DeflateDecoder::new(payload).take(MAX_UNFOLDED);
        Ok(ciborium::from_reader(unfolded)?)
    }
}

/// Covers the length too, so that zeros are never a valid frame.
fn checksum(length: u32, payload: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Whether two values are the same byte for byte, as a recording holds them. Unlike `==` this takes a
/// NaN for itself and tells the spellings of a quantity apart.
pub fn is_same<T: serde::Serialize>(a: &T, b: &T) -> Result<bool, EncodeError> {
    let bytes = |value: &T| -> Result<Vec<u8>, EncodeError> {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes)?;
        Ok(bytes)
    };
    Ok(bytes(a)? == bytes(b)?)
}
