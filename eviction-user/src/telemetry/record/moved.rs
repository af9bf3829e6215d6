//! A watched path leads to another file system: from which to which, and who says when to look there.

use super::{Places, wall_clock};
use crate::model::Timestamp;
use crate::ports::{Coverage, Entry, FsPlace, Moved};
use serde_json::{Map, Value, json};

/// From here on records about these signals name the new place.
pub(super) fn follow(entry: &Entry, places: &mut Places) {
    if let Entry::Moved { moved, .. } = entry {
        let lines = moved.signals.iter();
        places.extend(lines.map(|line| (line.signal, moved.to.to_string())));
    }
}

pub(super) fn object(at: Timestamp, moved: &Moved, coverage: &[Coverage]) -> Value {
    let place = |place: &FsPlace| json!({"kind": place.kind, "device": place.device_name(), "at": place.at.display().to_string()});
    let line = |coverage: &Coverage| match coverage {
        Coverage::Hook(hook) => json!({"source": hook, "why_not": null}),
        Coverage::Timer(why) => json!({"source": "timer", "why_not": why}),
    };
    let lines = moved.signals.iter().zip(coverage);
    let signals: Map<_, _> = lines
        .map(|(moved, coverage)| (moved.signal.name().to_owned(), line(coverage)))
        .collect();
    json!({
        "record": "moved",
        "t_ns": at.as_nanos(),
        "time": wall_clock(at),
        "path": moved.path.display().to_string(),
        "from": place(&moved.from),
        "to": place(&moved.to),
        "signals": signals,
    })
}

pub(super) fn text(moved: &Moved, coverage: &[Coverage]) -> String {
    let place = |place: &FsPlace| {
        let kind = place.kind.as_deref().unwrap_or("unknown");
        format!("{kind} ({place})")
    };
    let mut said = format!(
        "{} was on {} and is on {} now",
        moved.path.display(),
        place(&moved.from),
        place(&moved.to)
    );
    for (line, coverage) in moved.signals.iter().zip(coverage) {
        let who = match coverage {
            Coverage::Hook(hook) => format!("told by {hook}"),
            Coverage::Timer(why) => format!("looked at on the timer: {why}"),
        };
        said.push_str(&format!("\n{:40} {}: {who}", "", line.signal));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FsLayout, Signal};
    use crate::ports::MovedSignal;

    fn moved() -> (Moved, [Coverage; 2]) {
        let place = |kind: &str, device, at: &str| FsPlace {
            kind: Some(kind.into()),
            device,
            at: at.into(),
        };
        let line = |signal| MovedSignal {
            signal,
            unfollowed: None,
        };
        let moved = Moved {
            path: "/data/pods".into(),
            from: place("ext4", 0x801, "/"),
            to: place("btrfs", 0x29, "/data"),
            signals: vec![
                line(Signal::NodeFsAvailable),
                line(Signal::NodeFsInodesFree),
            ],
            layout: FsLayout::default(),
        };
        let timer = Coverage::Timer("nobody knows".into());
        (moved, [Coverage::Hook("kprobe/f"), timer])
    }

    #[test]
    fn it_says_from_where_to_where_and_who_tells_of_each_signal() {
        let (moved, coverage) = moved();
        let said = text(&moved, &coverage);
        let words = [
            "/data/pods was on ext4 (device 8:1 at /) and is on btrfs (device 0:41 at /data) now",
            "nodefs.available: told by kprobe/f",
            "nodefs.inodesFree: looked at on the timer: nobody knows",
        ];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        let record = object(Timestamp::from_secs(1), &moved, &coverage);
        assert_eq!(record["from"]["kind"], "ext4");
        assert_eq!(record["to"]["device"], "0:41");
        assert_eq!(record["signals"]["nodefs.available"]["source"], "kprobe/f");
        assert_eq!(
            record["signals"]["nodefs.inodesFree"]["why_not"],
            "nobody knows"
        );
    }

    #[test]
    fn later_records_name_the_new_place() {
        let (moved, coverage) = moved();
        let mut places: Places = [(Signal::NodeFsAvailable, "old".to_owned())].into();
        let entry = Entry::Moved {
            at: Timestamp::from_secs(1),
            moved,
            coverage: coverage.into(),
        };
        follow(&entry, &mut places);
        assert_eq!(places[&Signal::NodeFsAvailable], "device 0:41 at /data");
    }
}
