//! What is recorded and replayed.

use super::super::{Change, Recorder, Told, strip};
use super::{Limits, Player, ROOMY, Reader, assert_same, facts, files, generate, live, replayed};
use crate::model::{Action, Limit, Quantity, Signal, Span, Threshold, Timestamp};
use crate::policy::additions::Additions;
use crate::policy::additions::memory_figure::MemoryFigure;
use crate::policy::{Engine, EngineConfig, Input};
use proptest::prelude::*;
use std::path::Path;

/// Records a life as the agent does.
fn record(directory: &Path, limits: Limits, config: &EngineConfig, inputs: &[(Timestamp, Input)]) {
    let (mut recorder, thread) = Recorder::start(directory, limits, facts(config)).unwrap();
    let mut engine = Engine::new(config.clone());
    for (at, input) in inputs {
        // An answer that the look could not be judged is recorded like any other.
        let _ = recorder.handle(&mut engine, *at, "test", input.clone());
    }
    drop(recorder);
    thread.join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn from_the_inputs_alone_every_decision_comes_back((config, inputs) in generate::life()) {
        let folder = tempfile::tempdir().unwrap();
        let (whole, stripped) = (folder.path().join("whole"), folder.path().join("stripped"));
        record(&whole, ROOMY, &config, &inputs);
        prop_assert!(strip(&whole, &stripped).unwrap().is_empty());
        let lived = live(&config, &inputs);
        assert_same(&lived, &replayed(&whole));
        assert_same(&lived, &replayed(&stripped));
    }

    /// Old files are gone, so the rest starts with the state of the engine, not with a new one.
    #[test]
    fn the_last_files_of_a_long_run_replay_alone((config, inputs) in generate::life()) {
        let folder = tempfile::tempdir().unwrap();
        let limits = Limits { bytes: 3_000, files: 3 };
        let (mut recorder, drain) = Recorder::in_hand(folder.path(), limits, facts(&config));
        let mut engine = Engine::new(config.clone());
        let mut drain = drain;
        for (at, input) in &inputs {
            let _ = recorder.handle(&mut engine, *at, "test", input.clone());
            drain.catch_up();
        }
        let count = files(folder.path()).unwrap().len();
        prop_assert!(count <= 3, "{count} files");
        let said = replayed(folder.path());
        let lived = live(&config, &inputs);
        assert_same(&lived[lived.len() - said.len()..], &said);
    }
}

#[test]
fn a_full_file_is_followed_by_the_next_and_the_oldest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let config = EngineConfig::with_thresholds(vec![]);
    let limits = Limits {
        bytes: 30_000,
        files: 3,
    };
    let (mut recorder, mut drain) = Recorder::in_hand(folder.path(), limits, facts(&config));
    let mut engine = Engine::new(config);
    let told = generate::one_look(100);
    for _ in 0..400 {
        let _ = recorder.handle(&mut engine, told.at, "test", told.input.clone());
        drain.catch_up();
    }
    let kept = files(folder.path()).unwrap();
    let sizes: u64 = kept.iter().map(|f| f.metadata().unwrap().len()).sum();
    assert_eq!(kept.len(), 3);
    assert!(sizes <= limits.bytes, "{sizes} bytes");
    let first = Reader::open(&kept[0]).unwrap();
    assert!(first.head().part > 0 && first.head().resume.is_some());
    let replayed = replayed(folder.path()).len();
    assert!((20..400).contains(&replayed), "{replayed} of 400");
}

#[test]
fn another_configuration_acts_where_the_recorded_one_did_not() {
    let at = |limit: &str| {
        let limit = Limit::Quantity(limit.parse::<Quantity>().unwrap());
        vec![Threshold::hard(Signal::MemoryAvailable, limit)]
    };
    let config = EngineConfig::with_thresholds(at("100Mi"));
    let change = Change {
        thresholds: vec![],
        host_thresholds: at("300Mi"),
        transition_period: Span::from_secs(300),
        max_pod_grace_secs: 0,
        memory_figure: MemoryFigure::KUBELET,
        additions: Additions::default(),
    };
    let mut told = generate::one_look(200);
    let folder = tempfile::tempdir().unwrap();
    record(
        folder.path(),
        ROOMY,
        &config,
        &[(told.at, told.input.clone())],
    );
    let file = files(folder.path()).unwrap().remove(0);
    let reader = Reader::open(&file).unwrap();
    let evictions = |mut player: Player, told: &Told| {
        player.start(reader.head()).unwrap();
        let actions = player.decide(told).unwrap().actions.unwrap();
        actions
            .iter()
            .filter(|a| matches!(a, Action::Evict(_)))
            .count()
    };
    assert_eq!(evictions(Player::as_recorded(), &told), 0);
    assert_eq!(evictions(Player::with(change.clone()), &told), 1);
    let mut held = change.clone();
    held.additions.max_per_hour = Some(0);
    assert_eq!(
        evictions(Player::with(held), &told),
        0,
        "additions change too"
    );
    told = generate::one_look(400);
    assert_eq!(evictions(Player::with(change), &told), 0);
}
