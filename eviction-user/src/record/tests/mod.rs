//! Recordings of generated lives: whatever an engine goes through comes back byte for byte, and whatever
//! happens to a file costs no more than it must.

mod damage;
mod exact;
mod full_disk;
mod gaps;
mod generate;
mod golden;
mod replaying;

use super::{Frame, Limits, Platform, Player, Reader, RunFacts, Store, Writer, codec, files};
use crate::model::{Action, Timestamp};
use crate::policy::{Engine, EngineConfig, Input};
use std::path::Path;

/// What an engine was told, and what it said.
type Life = Vec<(Timestamp, Input, Option<Vec<Action>>)>;

const ROOMY: Limits = Limits {
    bytes: 1 << 30,
    files: 8,
};

fn facts(config: &EngineConfig) -> RunFacts {
    RunFacts {
        run: "test".to_owned(),
        epoch_nanos: 0,
        platform: Platform::Host,
        dry_run: false,
        config: config.clone(),
    }
}

fn writer(directory: &Path, limits: Limits, config: &EngineConfig) -> Writer {
    Writer::create(Store::open(directory, limits).unwrap(), facts(config)).unwrap()
}

fn live(config: &EngineConfig, inputs: &[(Timestamp, Input)]) -> Life {
    let mut engine = Engine::new(config.clone());
    inputs
        .iter()
        .map(|(at, input)| (*at, input.clone(), engine.handle(*at, input.clone()).ok()))
        .collect()
}

/// What a replay with the recorded configuration says to each recorded input.
fn replayed(path: &Path) -> Vec<(Timestamp, Option<Vec<Action>>)> {
    let mut player = Player::as_recorded();
    let mut said = Vec::new();
    for file in files(path).unwrap() {
        let mut reader = Reader::open(&file).unwrap();
        player.start(reader.head()).unwrap();
        while let Some(frame) = reader.next_frame().unwrap() {
            match frame {
                Frame::Input(told) => said.push((told.at, player.decide(&told).unwrap().actions)),
                Frame::Gap(gap) => player.skip_gap(&gap.resume).unwrap(),
                Frame::Head(_) | Frame::Decisions(_) | Frame::Note(_) => {}
            }
        }
    }
    said
}

/// Byte for byte, and the same count.
fn assert_same(
    live: &[(Timestamp, Input, Option<Vec<Action>>)],
    said: &[(Timestamp, Option<Vec<Action>>)],
) {
    assert_eq!(live.len(), said.len());
    for ((at, input, lived), (said_at, said)) in live.iter().zip(said) {
        assert_eq!(at, said_at);
        assert!(
            codec::is_same(lived, said).unwrap(),
            "at {at:?} on {input:?}: lived {lived:?}, said again {said:?}"
        );
    }
}
