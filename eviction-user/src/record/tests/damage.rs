//! Files that are cut, overwritten or something else entirely.

use super::super::{OpenError, Spoiled};
use super::{Frame, ROOMY, Reader, codec, files, generate, writer};
use crate::policy::EngineConfig;
use proptest::prelude::*;
use std::path::Path;

const FRAMES: usize = 4;

/// A recording of some inputs, and where each frame ends, the head's first.
fn recording() -> (Vec<u8>, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = writer(folder.path(), ROOMY, &EngineConfig::with_thresholds(vec![]));
    let file = files(folder.path()).unwrap().remove(0);
    let length = || std::fs::metadata(&file).unwrap().len() as usize;
    let mut ends = vec![length()];
    for n in 0..FRAMES as u64 {
        let told = generate::one_look(n);
        writer.append(&[Frame::Input(Box::new(told))]).unwrap();
        ends.push(length());
    }
    (std::fs::read(&file).unwrap(), ends)
}

/// How many frames after the head can be read, and what comes then.
fn read(bytes: &[u8]) -> Result<(usize, Option<Spoiled>), OpenError> {
    let mut reader = Reader::new(Path::new("x.rec"), bytes)?;
    let mut count = 0;
    loop {
        match reader.next_frame() {
            Ok(Some(_)) => count += 1,
            Ok(None) => return Ok((count, None)),
            Err(spoiled) => return Ok((count, Some(spoiled))),
        }
    }
}

#[test]
fn wherever_a_file_is_cut_only_the_record_at_the_cut_is_lost() {
    let (bytes, ends) = recording();
    for cut in 1..=bytes.len() {
        let whole = ends.iter().filter(|end| **end <= cut).count();
        match read(&bytes[..cut]) {
            Ok((count, spoiled)) => {
                assert_eq!(count + 1, whole, "cut at {cut}");
                assert_eq!(spoiled.is_none(), ends.contains(&cut), "cut at {cut}");
                if let Some(spoiled) = spoiled {
                    assert!(spoiled.is_torn(), "cut at {cut}: {spoiled}");
                    assert_eq!(spoiled.offset as usize, ends[whole - 1]);
                }
            }
            Err(OpenError::Head(spoiled)) => {
                assert!(spoiled.is_torn() && whole == 0, "cut at {cut}: {spoiled}");
            }
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
}

#[test]
fn zeros_after_a_crash_of_the_machine_are_a_torn_end() {
    let (bytes, ends) = recording();
    let mut padded = bytes.clone();
    padded.extend([0; 5_000]);
    let (count, spoiled) = read(&padded).unwrap();
    assert_eq!(count, FRAMES);
    assert!(spoiled.unwrap().is_torn());
    // The length of the last record is there, its content never arrived.
    let mut hollow = bytes.clone();
    hollow[ends[FRAMES - 1] + codec::FRAME_HEADER_LEN..].fill(0);
    let (count, spoiled) = read(&hollow).unwrap();
    assert_eq!(count, FRAMES - 1);
    assert!(spoiled.unwrap().is_torn());
}

#[test]
fn an_overwritten_record_is_named_by_file_and_offset_and_nothing_after_it_is_believed() {
    let (mut bytes, ends) = recording();
    bytes[ends[1] + 20] ^= 1;
    let (count, spoiled) = read(&bytes).unwrap();
    let spoiled = spoiled.unwrap();
    assert_eq!(count, 1);
    assert!(!spoiled.is_torn());
    let said = spoiled.to_string();
    assert!(
        said.starts_with(&format!("x.rec: at byte {}: the checksum", ends[1])),
        "{said}"
    );
}

#[test]
fn another_file_and_another_version_are_told_apart() {
    assert!(matches!(read(b""), Err(OpenError::NotARecording { .. })));
    let text = read(b"apiVersion: v1\n").unwrap_err().to_string();
    assert!(text.starts_with("x.rec: not a recording"), "{text}");
    let (mut bytes, _) = recording();
    bytes[8] = 9;
    let text = read(&bytes).unwrap_err().to_string();
    assert!(
        text.starts_with("x.rec: a recording of version 9, this program reads version 1"),
        "{text}"
    );
}

#[test]
fn no_change_of_a_byte_goes_unnoticed() {
    let (whole, ends) = recording();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        let before = ends.iter().filter(|end| **end <= at).count();
        match read(&bytes) {
            Ok((count, spoiled)) => {
                assert_eq!(count + 1, before, "at {at}");
                let spoiled = spoiled.unwrap();
                assert_eq!(spoiled.offset as usize, ends[before - 1]);
                // A wrong end could be a crash, a wrong middle could not.
                assert!(!spoiled.is_torn() || before == FRAMES, "at {at}: {spoiled}");
            }
            Err(_) => assert_eq!(before, 0, "at {at}"),
        }
    }
}

proptest! {
    #[test]
    fn whatever_the_bytes_are_reading_ends(noise in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let mut bytes = codec::prefix().to_vec();
        bytes.extend(noise);
        prop_assert!(read(&bytes).is_err());
    }
}
