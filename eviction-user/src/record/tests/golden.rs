//! A recording of a real run by the first program that wrote any: what changes the data model must still
//! read it, or raise the version.

use super::{Frame, Player, Reader};
use crate::model::Action;
use std::path::Path;

#[test]
fn the_first_recording_of_version_1_can_still_be_read_and_replayed() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/recording-v1.rec");
    let mut reader = Reader::open(Path::new(path)).unwrap();
    let mut player = Player::as_recorded();
    player.start(reader.head()).unwrap();
    let mut notes = 0;
    let (mut recorded, mut replayed) = (Vec::new(), Vec::new());
    while let Some(frame) = reader.next_frame().unwrap() {
        match frame {
            Frame::Input(told) => replayed.extend(victims(&player.decide(&told).unwrap().actions)),
            Frame::Decisions(actions) => recorded.extend(victims(&actions)),
            Frame::Note(_) => notes += 1,
            Frame::Head(_) | Frame::Gap(_) => panic!("there is none: {frame:?}"),
        }
    }
    assert_eq!(recorded, ["hog"]);
    assert_eq!(replayed, recorded);
    assert_eq!(notes, 4, "started, begun, killed, gone");
}

fn victims(actions: &Option<Vec<Action>>) -> Vec<String> {
    let name = |action: &Action| match action {
        Action::Evict(eviction) => Some(eviction.pod.name.clone()),
        _ => None,
    };
    actions.iter().flatten().filter_map(name).collect()
}
