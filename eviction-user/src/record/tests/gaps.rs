//! A writer that cannot keep up.

use super::super::Recorder;
use super::{Frame, ROOMY, Reader, assert_same, facts, files, generate, live, replayed};
use crate::policy::Engine;
use crate::ports::Entry;
use crate::record::Note;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of a burst that finds no room the beginning is there, the loss is counted, and from the next
    /// input on the decisions are again those of the live engine.
    #[test]
    fn what_finds_no_room_is_counted_and_the_rest_replays((config, inputs) in generate::life(), burst in 0..40_usize) {
        let folder = tempfile::tempdir().unwrap();
        let (mut recorder, mut drain) = Recorder::in_hand(folder.path(), ROOMY, facts(&config));
        let room = Recorder::ROOM_IN_HAND;
        let burst = burst.min(inputs.len());
        let mut engine = Engine::new(config.clone());
        for (number, (at, input)) in inputs.iter().enumerate() {
            let _ = recorder.handle(&mut engine, *at, "test", input.clone());
            if number + 1 >= burst {
                drain.catch_up();
            }
        }
        let mut lived = live(&config, &inputs);
        let lost = burst.saturating_sub(room);
        lived.drain(room.min(burst)..burst);
        assert_same(&lived, &replayed(folder.path()));

        let mut reader = Reader::open(&files(folder.path()).unwrap()[0]).unwrap();
        let mut gaps = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            if let Frame::Gap(gap) = frame {
                gaps.push(gap.lost);
            }
        }
        let told = if lost > 0 && burst < inputs.len() { vec![lost as u64] } else { vec![] };
        prop_assert_eq!(gaps, told);
    }
}

#[test]
fn notes_that_find_no_room_are_counted_too() {
    let folder = tempfile::tempdir().unwrap();
    let config = crate::policy::EngineConfig::with_thresholds(vec![]);
    let (mut recorder, mut drain) = Recorder::in_hand(folder.path(), ROOMY, facts(&config));
    let entry = || Entry::EventsLost { count: 1 };
    for _ in 0..Recorder::ROOM_IN_HAND + 3 {
        recorder.note(&entry());
    }
    drain.catch_up();
    recorder.note(&entry());
    drain.catch_up();
    let mut reader = Reader::open(&files(folder.path()).unwrap()[0]).unwrap();
    let mut told = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        if let Frame::Note(Note::NotesLost { count }) = frame {
            told.push(count);
        }
    }
    assert_eq!(told, [3]);
}
