//! Named points at which this process kills itself, so that a test can let it die at each step of an eviction.
//!
//! A step lies between threads: what one of them has done and another one has not. So a point has one place or two, in two
//! threads: whoever comes to its own first waits there for the other.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::sync::atomic::{AtomicU8, Ordering};

/// Names the point. Read once, at the start.
pub const VARIABLE: &str = "EVICTION_FAULT_POINT";

/// What has been done by then, in the order of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Point {
    /// The victim is chosen; nobody knows.
    Decided,
    /// The record is on disk; the victim runs.
    RecordedNotKilled,
    /// The record is on disk; the victim is frozen, so that a SIGKILL waits for the thaw on cgroup v1.
    Frozen,
    /// The victim is killed; nothing is on disk.
    KilledNotRecorded,
    /// The victim is killed and in the list of those on their way out; its record is not on disk.
    KeptNotRecorded,
    /// The victim is killed, its record on disk; it is in no list.
    RecordedNotKept,
    /// All is on disk; the API server has not been told.
    NotPatched,
    /// The API server has been told; the event has not been written.
    Patched,
    /// All has been told; the kubelet has not ended the pod.
    TeardownAwaited,
    /// The kubelet has ended the pod; its object, which is to be deleted, is still there.
    NotDeleted,
    /// The pod's object is deleted; all is still on disk.
    Deleted,
    /// The kubelet has ended the pod; its volumes are still there.
    VolumesAwaited,
    /// The victim is done with; all is still on disk.
    RecordNotRemoved,
    /// The victim is done with, its record removed; it is still in the list.
    RecordRemoved,
    /// The engine has heard that the victim is gone; it is still in the list.
    VictimNotRemoved,
}

impl Point {
    pub const ALL: [Self; 15] = [
        Self::Decided,
        Self::RecordedNotKilled,
        Self::Frozen,
        Self::KilledNotRecorded,
        Self::KeptNotRecorded,
        Self::RecordedNotKept,
        Self::NotPatched,
        Self::Patched,
        Self::TeardownAwaited,
        Self::NotDeleted,
        Self::Deleted,
        Self::VolumesAwaited,
        Self::RecordNotRemoved,
        Self::RecordRemoved,
        Self::VictimNotRemoved,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Decided => "decided",
            Self::RecordedNotKilled => "recorded-not-killed",
            Self::Frozen => "frozen",
            Self::KilledNotRecorded => "killed-not-recorded",
            Self::KeptNotRecorded => "kept-not-recorded",
            Self::RecordedNotKept => "recorded-not-kept",
            Self::NotPatched => "not-patched",
            Self::Patched => "patched",
            Self::TeardownAwaited => "teardown-awaited",
            Self::NotDeleted => "not-deleted",
            Self::Deleted => "deleted",
            Self::VolumesAwaited => "volumes-awaited",
            Self::RecordNotRemoved => "record-not-removed",
            Self::RecordRemoved => "record-removed",
            Self::VictimNotRemoved => "victim-not-removed",
        }
    }

    /// Only where the objects of victims are deleted (`--after-eviction delete`).
    pub fn is_of_deletion(self) -> bool {
        matches!(self, Self::NotDeleted | Self::Deleted)
    }

    fn named(name: &str) -> Result<Self, UnknownPoint> {
        let mut all = Self::ALL.into_iter();
        all.find(|point| point.name() == name)
            .ok_or_else(|| UnknownPoint(name.to_owned()))
    }

    /// In as many threads.
    fn places(self) -> u8 {
        match self {
            // Objects are deleted by one thread alone, and the other need not have come to anything.
            Self::Decided | Self::NotDeleted | Self::Deleted => 1,
            _ => 2,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{VARIABLE}: no fault point is named {0:?}; there are {names}", names = Point::ALL.map(Point::name).join(", "))]
pub struct UnknownPoint(String);

/// The point as a number above 0; 0: none, as for everybody but a test.
static ARMED: AtomicU8 = AtomicU8::new(0);
/// Places that have been come to.
static REACHED: AtomicU8 = AtomicU8::new(0);

/// Takes the point from the environment, before there is anything to be interrupted.
pub fn arm() -> Result<Option<Point>, UnknownPoint> {
    let Some(name) = std::env::var_os(VARIABLE) else {
        return Ok(None);
    };
    let point = Point::named(&name.to_string_lossy())?;
    ARMED.store(number(point), Ordering::Relaxed);
    Ok(Some(point))
}

/// A place of `point`.
#[inline]
pub fn reach(point: Point) {
    if ARMED.load(Ordering::Relaxed) == number(point) {
        die(point);
    }
}

fn number(point: Point) -> u8 {
    point as u8 + 1
}

#[cold]
fn die(point: Point) {
    if REACHED.fetch_add(1, Ordering::SeqCst) + 1 == point.places() {
        // Nobody can refuse it to itself.
        let _ = kill(Pid::this(), Signal::SIGKILL);
    }
    // It goes with the process; a parked thread may wake for no reason.
    loop {
        std::thread::park();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_is_found_by_its_own_name_and_no_other_is() {
        for point in Point::ALL {
            assert_eq!(Point::named(point.name()).unwrap(), point);
        }
        let error = Point::named("Decided").unwrap_err().to_string();
        assert!(
            error.starts_with(
                "EVICTION_FAULT_POINT: no fault point is named \"Decided\"; there are decided, "
            ) && error.ends_with(", victim-not-removed"),
            "{error}"
        );
    }
}
