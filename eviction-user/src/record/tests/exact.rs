//! What comes back is what was written, to the last digit, and nothing that no engine could have made.

use super::super::{Note, PlayError};
use super::{EngineConfig, Frame, Player, codec, generate, live};
use crate::model::{
    Action, Limit, NodeEvent, Quantity, ReclaimCall, Signal, Threshold, Timestamp, annotation,
};
use crate::policy::Engine;
use crate::ports::{Entry, KillReport, Wake};
use ciborium::Value;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

fn back<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    ciborium::from_reader(bytes.as_slice()).unwrap()
}

#[test]
fn quantities_keep_value_form_and_spelling() {
    for text in [
        "0",
        "100Mi",
        "1e3",
        "1.5Gi",
        "-3",
        "0.1",
        "1234567890123456789012",
        "9223372036854775807Ei",
        "1e2147483647",
        "1n",
    ] {
        let quantity: Quantity = text.parse().unwrap();
        let read = back(&quantity);
        assert_eq!(read, quantity, "{text}");
        assert_eq!(read.to_string(), quantity.to_string());
        assert_eq!(read.value(), quantity.value());
        assert_eq!(read.milli_value(), quantity.milli_value());
        assert!(codec::is_same(&read, &quantity).unwrap());
    }
}

#[test]
fn sameness_is_that_of_bytes() {
    let percentage = |value| Limit::Percentage(value);
    assert!(codec::is_same(&percentage(f32::NAN), &percentage(f32::NAN)).unwrap());
    assert!(!codec::is_same(&percentage(0.1), &percentage(0.100_000_01)).unwrap());
    let quantity = |text: &str| text.parse::<Quantity>().unwrap();
    assert_eq!(quantity("1Gi"), quantity("1024Mi"));
    assert!(!codec::is_same(&quantity("1Gi"), &quantity("1024Mi")).unwrap());
}

#[test]
fn texts_and_lists_of_the_program_come_back_and_others_are_refused() {
    for calls in [
        ReclaimCall::NONE,
        ReclaimCall::DEAD_CONTAINERS,
        ReclaimCall::UNUSED_IMAGES,
        ReclaimCall::BOTH,
    ] {
        let action = Action::ReclaimNode {
            signal: Signal::ImageFsAvailable,
            calls,
        };
        assert_eq!(back(&action), action);
    }
    let event = NodeEvent {
        reason: NodeEvent::THRESHOLD_MET,
        message: "x".to_owned(),
    };
    assert_eq!(back(&event), event);
    let other = NodeEvent {
        reason: "Other",
        ..event
    };
    let mut bytes = Vec::new();
    ciborium::into_writer(&other, &mut bytes).unwrap();
    let refused = ciborium::from_reader::<NodeEvent, _>(bytes.as_slice()).unwrap_err();
    assert!(refused.to_string().contains("Other"), "{refused}");

    let limit = Limit::Quantity("300Mi".parse::<Quantity>().unwrap());
    let hard = vec![Threshold::hard(Signal::MemoryAvailable, limit)];
    let told = generate::one_look(200);
    let lived = live(
        &EngineConfig::with_thresholds(hard),
        &[(told.at, told.input)],
    );
    let actions = lived[0].2.as_ref().unwrap();
    let Some(Action::Evict(eviction)) = actions.last() else {
        panic!("{actions:?}")
    };
    let keys: Vec<_> = eviction.annotations.iter().map(|(key, _)| *key).collect();
    assert!(keys.contains(&annotation::STARVED_RESOURCE), "{keys:?}");
    assert_eq!(&back(actions), actions);
}

/// With the right checksum, but not of this world: an error, not a panic.
#[test]
fn a_state_about_thresholds_that_are_not_there_is_refused() {
    let config = EngineConfig::with_thresholds(vec![]);
    let told = generate::one_look(200);
    let mut engine = Engine::new(config.clone());
    engine.handle(told.at, told.input.clone()).unwrap();
    let mut value = Value::serialized(&engine.checkpoint()).unwrap();
    let Value::Map(checkpoint) = &mut value else {
        panic!("{value:?}")
    };
    let Some((_, Value::Map(state))) = checkpoint
        .iter_mut()
        .find(|(key, _)| key.as_text() == Some("state"))
    else {
        panic!("no state")
    };
    let satisfied = state
        .iter_mut()
        .find(|(key, _)| key.as_text() == Some("satisfied"));
    satisfied.unwrap().1 = Value::Array(vec![Value::from(7)]);
    let forged = value.deserialized().unwrap();

    let folder = tempfile::tempdir().unwrap();
    super::writer(folder.path(), super::ROOMY, &config);
    let file = super::files(folder.path()).unwrap().remove(0);
    let mut head = super::Reader::open(&file).unwrap().head().clone();
    head.resume = Some(forged);
    let error = Player::as_recorded().start(&head).unwrap_err();
    assert!(matches!(error, PlayError::Checkpoint(_)));
    head.resume = None;
    Player::as_recorded().start(&head).unwrap();
}

#[test]
fn what_was_done_is_kept_and_what_the_engine_said_is_not_kept_twice() {
    let at = Timestamp::from_secs(7);
    let uid = crate::model::Uid::new("hog");
    let kill = Entry::Kill {
        id: 3,
        uid: uid.clone(),
        report: KillReport {
            done: at,
            method: "cgroup.kill",
            processes: 2,
        },
        wake: Wake::Interval,
    };
    let killed = Note::Killed {
        id: 3,
        at,
        uid: uid.clone(),
        method: "cgroup.kill".into(),
        processes: 2,
    };
    let gone = Entry::Gone {
        id: 3,
        uid: uid.clone(),
        at,
        after: Duration::from_millis(2),
    };
    let is_gone = Note::Gone {
        id: 3,
        at,
        uid,
        after_us: 2_000,
    };
    for (entry, note) in [(kill, killed), (gone, is_gone)] {
        assert_eq!(Note::of(&entry).as_ref(), Some(&note));
        let bytes = codec::encode(&Frame::Note(note.clone())).unwrap();
        let (header, payload) = bytes.split_at(codec::FRAME_HEADER_LEN);
        let header = codec::FrameHeader::read(header.try_into().unwrap()).unwrap();
        let read = header.decode(payload).unwrap();
        assert!(matches!(read, Frame::Note(read) if read == note));
    }
    let said = Entry::Engine {
        at,
        action: Action::Conditions(vec![]),
    };
    assert_eq!(Note::of(&said), None);
}
