//! A replay that finds what it must not find.

use super::{ReplayArgs, replay};
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

fn replayed(path: &Path) -> Result<Exit, (Exit, String)> {
    let line = Line::parse_from([Path::new("replay"), path]);
    replay(&line.args).map_err(|failure| (failure.exit, failure.text))
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
    assert_eq!(replayed(folder.path()), Ok(Exit::Good));

    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), vec![Action::Conditions(vec![])]);
    let (exit, text) = replayed(folder.path()).unwrap_err();
    assert_eq!(exit, Exit::Runtime);
    assert!(text.contains("1 decisions differ"), "{text}");
}
