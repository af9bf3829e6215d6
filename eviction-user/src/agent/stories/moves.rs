//! A watched path leads to another file system.

use super::*;
use crate::model::FsLayout;
use crate::ports::{FsPlace, MovedSignal};

const LINE: Signal = Signal::NodeFsAvailable;

fn moved() -> Moved {
    let place = |kind: &str, device| FsPlace {
        kind: Some(kind.into()),
        device,
        at: "/data".into(),
    };
    let line = |signal| MovedSignal {
        signal,
        unfollowed: None,
    };
    Moved {
        path: "/data".into(),
        from: place("ext4", 1),
        to: place("xfs", 2),
        signals: vec![line(LINE), line(Signal::NodeFsInodesFree)],
        layout: FsLayout {
            dedicated_imagefs: true,
            split_containerfs: false,
        },
    }
}

fn told(node: &Node) -> Vec<(Vec<Signal>, Vec<Coverage>)> {
    let moves = node.entries.iter().filter_map(|entry| match entry {
        Entry::Moved {
            moved, coverage, ..
        } => {
            let signals = moved.signals.iter().map(|line| line.signal).collect();
            Some((signals, coverage.clone()))
        }
        _ => None,
    });
    moves.collect()
}

fn config() -> EngineConfig {
    EngineConfig::with_thresholds(vec![hard(LINE)])
}

#[tokio::test]
async fn it_is_followed_after_the_look_looked_at_at_once_and_told_when_hooks_are_there() {
    let node = Shared::new(&[("web", 100)]);
    node.0.borrow_mut().disk_free = Some(500);
    let stop = async {
        node.until("the first looks", |node| node.looks > 0).await;
        let looks = node.0.borrow().looks;
        node.0.borrow_mut().moved = vec![moved()];
        node.0.borrow_mut().event = Some(event());
        // The event's look, and one that nobody asked for; the heartbeat would come a second later.
        let began = clock::now();
        node.until("a look at once", |node| node.looks >= looks + 2)
            .await;
        assert!(clock::elapsed_since(began) < Duration::from_millis(500));
        let followed = node.0.borrow().followed.clone();
        assert_eq!(followed, [LINE], "and no line that nobody watches");
        assert_eq!(told(&node.0.borrow()), []);
        node.0.borrow_mut().coverage = Some(Coverage::Hook("kprobe/xfs_dec_freecounter"));
        node.until("it is told", |node| !told(node).is_empty())
            .await;
    };
    node.run_with(config(), settings(), stop).await;
    let hook = Coverage::Hook("kprobe/xfs_dec_freecounter");
    assert_eq!(told(&node.0.borrow()), [(vec![LINE], vec![hook])]);
}

#[tokio::test]
async fn a_decision_about_the_new_file_system_comes_after_the_word_that_it_is_there() {
    let node = Shared::new(&[("web", 100)]);
    node.0.borrow_mut().disk_free = Some(500);
    let stop = async {
        node.until("the first looks", |node| node.looks > 0).await;
        node.0.borrow_mut().moved = vec![moved()];
        node.0.borrow_mut().disk_free = Some(50);
        node.0.borrow_mut().event = Some(event());
        node.until("a decision", |node| {
            let mut entries = node.entries.iter();
            entries.any(|entry| matches!(entry, Entry::Decision { .. }))
        })
        .await;
    };
    node.run_with(config(), settings(), stop).await;
    let told = told(&node.0.borrow());
    let [(_, coverage)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert!(
        matches!(coverage.as_slice(), [Coverage::Timer(why)] if why.contains("being attached")),
        "{coverage:?}"
    );
}
