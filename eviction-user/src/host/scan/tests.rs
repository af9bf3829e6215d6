use super::*;
use nix::mount::{MsFlags, mount, umount};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn target(dir: &Path) -> ScanTarget {
    ScanTarget {
        workload: "web".into(),
        dir: dir.to_owned(),
    }
}

fn once(dir: &Path) -> Scanned {
    Scanner::once(&[target(dir)])[&target(dir)]
}

fn found(scanner: &Scanner) -> Option<Scanned> {
    scanner.found()?.into_values().next()
}

fn always(targets: Vec<ScanTarget>) -> Targets {
    Box::new(move || targets.clone())
}

fn until<T>(mut answer: impl FnMut() -> Option<T>) -> T {
    for _ in 0..5_000 {
        if let Some(answer) = answer() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("it did not happen within 10 s");
}

/// A tree with files, a hard link across directories, a symbolic link, and a hole.
fn tree(top: &Path) {
    for dir in ["a/b/c", "d"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    for file in ["one", "a/two", "a/b/three", "a/b/c/four", "d/five"] {
        fs::write(top.join(file), vec![7; 10_000]).unwrap();
    }
    fs::hard_link(top.join("one"), top.join("a/b/c/one-again")).unwrap();
    std::os::unix::fs::symlink("/usr", top.join("d/elsewhere")).unwrap();
    let hole = fs::File::create(top.join("d/hole")).unwrap();
    hole.set_len(1 << 30).unwrap();
}

#[test]
fn every_inode_counts_once_with_the_blocks_it_has_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let found = once(dir.path());
    let paths = [
        "",
        "a",
        "a/b",
        "a/b/c",
        "d",
        "one",
        "a/two",
        "a/b/three",
        "a/b/c/four",
        "d/five",
        "d/elsewhere",
        "d/hole",
    ];
    let blocks = |path: &&str| {
        fs::symlink_metadata(dir.path().join(path))
            .unwrap()
            .blocks()
    };
    let bytes = paths.iter().map(blocks).sum::<u64>() * 512;
    assert_eq!((found.inodes, found.bytes), (paths.len() as u64, bytes));
    assert!(found.bytes < 1 << 20, "a hole takes no room");
    let real = crate::sys::filesystem::FileSystem::at(dir.path());
    assert_eq!(found.device, real.unwrap().device);
    assert_eq!(found.unreadable, 0);
}

/// What a workload can make is not for us to keep: our memory is small, and locked.
#[test]
fn what_a_walk_keeps_is_bounded_and_what_it_leaves_out_is_told() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..5 {
        let sub = dir.path().join(format!("d{number}"));
        fs::create_dir(&sub).unwrap();
        fs::write(sub.join("file"), "x").unwrap();
    }
    let top = Top::open(dir.path()).unwrap();
    let mut walk = Walk::begin(&top);
    while walk.step_keeping(3, &top, &mut Throttle::unlimited()) {}
    // Each directory counts, and what is in those that had room.
    assert_eq!((walk.inodes, walk.unreadable), (1 + 5 + 3, 2));
}

#[test]
fn a_directory_that_is_not_there_has_no_figures() {
    let dir = tempfile::tempdir().unwrap();
    let found = Scanner::once(&[target(&dir.path().join("missing"))]);
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn mounts_below_are_not_entered_also_not_those_of_the_same_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let (mounted, other) = (dir.path().join("w/mounted"), dir.path().join("other"));
    fs::create_dir_all(&mounted).unwrap();
    fs::create_dir(&other).unwrap();
    fs::write(other.join("not-ours"), vec![7; 100_000]).unwrap();
    let before = once(&dir.path().join("w"));
    let none: Option<&Path> = None;
    if let Err(e) = mount(Some(&other), &mounted, none, MsFlags::MS_BIND, none) {
        println!("skipped: a bind mount needs root ({e})");
        return;
    }
    let after = once(&dir.path().join("w"));
    umount(&mounted).unwrap();
    assert_eq!(before.inodes, 2);
    assert_eq!(after.inodes, 1, "the mount point is somebody else's");
}

#[test]
fn a_pass_that_is_put_aside_anywhere_and_gone_on_with_counts_the_same() {
    let dir = tempfile::tempdir().unwrap();
    tree(dir.path());
    let whole = once(dir.path());
    let top = Top::open(dir.path()).unwrap();
    for steps in 0..5 {
        let mut walk = Walk::begin(&top);
        for _ in 0..steps {
            assert!(walk.step(&top, &mut Throttle::unlimited()));
        }
        let mut kept = Vec::new();
        ciborium::into_writer(&walk, &mut kept).unwrap();
        let mut walk: Walk = ciborium::from_reader(kept.as_slice()).unwrap();
        while walk.step(&top, &mut Throttle::unlimited()) {}
        assert_eq!((walk.inodes, walk.bytes), (whole.inodes, whole.bytes));
    }
}

#[test]
fn after_a_restart_the_last_figures_are_there_and_the_pass_under_way_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("scan.cbor"));
    fs::create_dir(&data).unwrap();
    tree(&data);
    let whole = once(&data);
    let top = Top::open(&data).unwrap();
    let mut walk = Walk::begin(&top);
    for _ in 0..2 {
        walk.step(&top, &mut Throttle::unlimited());
    }
    let round = Round {
        number: 7,
        began: clock::now(),
        at: 0,
        walk: None,
    };
    let under_way = SavedWalk::new(&target(&data), &top, &round, &walk);
    let last = Scanned { inodes: 3, ..whole };
    let last = ScanResult::from([(target(&data), last)]);
    let saved = SavedScan::new(&last, Some(under_way));
    saved.write(&file).unwrap();
    assert_eq!(saved.found(&[target(&data)])[&target(&data)].inodes, 3);
    assert_eq!(saved.found(&[target(dir.path())]), ScanResult::new());
    assert!(saved.unfinished(&[target(dir.path())]).is_none());

    // What the pass has been through already is not read again.
    fs::remove_file(data.join("one")).unwrap();
    let scanner = Scanner::start(always(vec![target(&data)]), Share::Tenth, Some(file)).unwrap();
    let gone_on = until(|| found(&scanner).filter(|found| found.inodes != 3));
    assert_eq!((gone_on.inodes, gone_on.round), (whole.inodes, 0));
}

#[test]
fn what_makes_no_sense_is_scanned_anew() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("scan.cbor");
    fs::write(&file, b"nonsense").unwrap();
    assert_eq!(SavedScan::read(&file).found(&[target(dir.path())]).len(), 0);
}

#[test]
fn a_round_begins_when_asked_for_and_the_next_one_only_after_a_rest() {
    let dir = tempfile::tempdir().unwrap();
    let scanner = Scanner::start(always(vec![target(dir.path())]), Share::Tenth, None).unwrap();
    assert_eq!(
        scanner.found(),
        None,
        "nothing is known before the first round"
    );
    assert_eq!(scanner.begin(Duration::ZERO), Some(1));
    let first = until(|| found(&scanner));
    assert_eq!((first.inodes, first.round), (1, 1));
    fs::write(dir.path().join("later"), "").unwrap();
    assert_eq!(scanner.begin(Duration::from_secs(3600)), None);
    assert_eq!(until(|| scanner.begin(Duration::ZERO)), 2);
    let second = until(|| found(&scanner).filter(|found| found.round == 2));
    assert_eq!(second.inodes, 2);
    assert!(second.began > first.began);
}

#[test]
fn a_scanner_that_is_dropped_ends_its_thread_in_the_middle_of_a_round() {
    let dir = tempfile::tempdir().unwrap();
    for i in 0..2_000 {
        fs::write(dir.path().join(i.to_string()), "").unwrap();
    }
    let scanner = Scanner::start(always(vec![target(dir.path())]), Share::Tenth, None).unwrap();
    scanner.begin(Duration::ZERO);
    let shared = Arc::downgrade(&scanner.shared);
    drop(scanner);
    until(|| (shared.strong_count() == 0).then_some(()));
}
