//! Killing a process frees no file. A host's disk stays full after the one who filled it is gone, and
//! killing the next one and the next would empty the machine and free nothing.

use crate::model::{Eviction, EvictionCause, Hold, Resource, Signal};

/// What became of the disk for which somebody was last evicted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FillingGuard {
    last: Option<Last>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Last {
    signal: Signal,
    /// Available when it was decided, and when the victim was gone.
    before: i64,
    after: Option<i64>,
}

/// Changes of less than this part of the capacity mean nothing.
const NOISE: i64 = 1_000;

impl FillingGuard {
    pub fn evicted(&mut self, eviction: &Eviction) {
        if let Some((signal, available, _)) = disk(eviction) {
            self.last = Some(Last {
                signal,
                before: available,
                after: None,
            });
        }
    }

    /// The pressure is over, or the victim is still there: what comes next stands for itself.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Why a further eviction for the same disk is held back, if it is. It is not while the disk goes on
    /// filling (then somebody else does it), nor where the last eviction did free something.
    pub fn hold(&mut self, eviction: &Eviction) -> Option<Hold> {
        let (signal, available, noise) = disk(eviction)?;
        let last = self.last.as_mut().filter(|last| last.signal == signal)?;
        let after = *last.after.get_or_insert(available);
        let has_freed = available > last.before.saturating_add(noise);
        let is_filling = available < after.saturating_sub(noise);
        (!has_freed && !is_filling).then_some(Hold::NotFilling { signal, available })
    }
}

/// The disk signal, what is available, and what change of it means nothing.
fn disk(eviction: &Eviction) -> Option<(Signal, i64, i64)> {
    match &eviction.cause {
        EvictionCause::Pressure {
            resource: Resource::EphemeralStorage | Resource::Inodes,
            threshold,
            observed: Some(observed),
            ..
        } => Some((
            threshold.signal,
            observed.available,
            observed.capacity / NOISE,
        )),
        EvictionCause::Pressure { .. } | EvictionCause::LocalStorage(_) => None,
    }
}
