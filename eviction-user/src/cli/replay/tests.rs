//! A replay that finds what it must not find.

use super::{ReplayArgs, replay_to};
use crate::cli::Exit;
use crate::model::{Action, FsLayout, Timestamp};
use crate::policy::{EngineConfig, Input};
use crate::record::{Frame, Limits, Platform, RunFacts, Store, Told, Writer};
use clap::Parser;
use std::path::Path;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: ReplayArgs,
}

/// What is printed, and how it ends.
fn replayed(path: &Path) -> (String, Result<Exit, (Exit, String)>) {
    let line = Line::parse_from([Path::new("replay"), path]);
    let mut out = Vec::new();
    let end = replay_to(&line.args, &mut out).map_err(|failure| (failure.exit, failure.text));
    (String::from_utf8(out).unwrap(), end)
}

/// A recording of one failed look, with these decisions.
fn record(directory: &Path, actions: Vec<Action>) {
    let limits = Limits {
        bytes: 1 << 20,
        files: 2,
    };
    let facts = RunFacts {
        run: "test".to_owned(),
        epoch_nanos: 0,
        platform: Platform::Host,
        dry_run: false,
        config: EngineConfig::with_thresholds(vec![]),
    };
    let mut writer = Writer::create(Store::open(directory, limits).unwrap(), facts).unwrap();
    let told = Told {
        at: Timestamp::from_secs(1),
        wake: "test".into(),
        input: Input::SampleFailed {
            layout: Some(FsLayout::default()),
        },
    };
    let frames = [
        Frame::Input(Box::new(told)),
        Frame::Decisions(Some(actions)),
    ];
    writer.append(&frames).unwrap();
}

#[test]
fn decisions_that_the_engine_does_not_make_again_are_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), vec![]);
    let (out, end) = replayed(folder.path());
    assert_eq!(end, Ok(Exit::Good));
    assert!(out.contains("the same as recorded, byte for byte"), "{out}");

    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), vec![Action::Conditions(vec![])]);
    let (out, end) = replayed(folder.path());
    let (exit, text) = end.unwrap_err();
    assert_eq!(exit, Exit::Runtime);
    assert!(text.contains("1 decisions differ"), "{text}");
    let told = "DIFFERS from what was recorded: conditions: no condition";
    assert!(out.contains(told), "{out}");
    assert!(!out.contains("byte for byte"), "{out}");
}
