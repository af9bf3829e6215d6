//! File systems that come and go.

use super::*;
use crate::model::FsLayout;
use crate::ports::{Coverage, FsPlace, Moved, MovedSignal};

#[test]
fn a_signal_that_has_moved_shows_what_tells_of_it_now() {
    let mut told = Told::watching(&[Signal::NodeFsAvailable]);
    let place = FsPlace {
        kind: None,
        device: 1,
        at: "/var".into(),
    };
    let moved = |coverage| Entry::Moved {
        at: micros(0),
        moved: Moved {
            path: "/var".into(),
            from: place.clone(),
            to: place.clone(),
            signals: vec![MovedSignal {
                signal: Signal::NodeFsAvailable,
                unfollowed: None,
            }],
            layout: FsLayout::default(),
        },
        coverage: vec![coverage],
    };
    let line = |rung| format!(r#"eviction_moved{{signal="nodefs.available",rung="{rung}"}} 1"#);
    told.take(&[moved(Coverage::Timer("being attached".into()))]);
    assert_eq!(told.counted("eviction_moved"), [line("timer")]);
    told.take(&[moved(Coverage::Hook("fentry/a"))]);
    assert_eq!(told.counted("eviction_moved"), [line("fentry/a")]);
}
