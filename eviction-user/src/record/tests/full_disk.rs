//! A file system that is full for a while: the very thing the program is there for.

use super::super::Recorder;
use super::{Frame, ROOMY, Reader, assert_same, facts, files, generate, replayed};
use crate::model::Timestamp;
use crate::policy::{Engine, EngineConfig};

#[test]
fn what_could_not_be_written_is_a_gap_and_what_follows_replays() {
    let folder = tempfile::tempdir().unwrap();
    let config = EngineConfig::with_thresholds(vec![]);
    let (mut recorder, mut drain) = Recorder::in_hand(folder.path(), ROOMY, facts(&config));
    let mut engine = Engine::new(config);
    let mut lived = Vec::new();
    for second in 0..6 {
        drain.fail_writes((2..4).contains(&second));
        let (at, input) = (Timestamp::from_secs(second), generate::one_look(100).input);
        let said = recorder.handle(&mut engine, at, "test", input.clone()).ok();
        drain.catch_up();
        if !(2..4).contains(&second) {
            lived.push((at, input, said));
        }
    }
    assert_same(&lived, &replayed(folder.path()));
    let mut reader = Reader::open(&files(folder.path()).unwrap()[0]).unwrap();
    let mut gaps = Vec::new();
    while let Some(frame) = reader.next_frame().unwrap() {
        if let Frame::Gap(gap) = frame {
            gaps.push(gap.lost);
        }
    }
    assert_eq!(gaps, [2]);
}
