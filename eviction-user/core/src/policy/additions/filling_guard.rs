//! What a kill gives back, and when. Killing a process frees no file: a host's disk stays full after the one
//! who filled it is gone (and that of a node as long as the kubelet keeps a dead pod's layers), and killing the next one and the next would empty the machine and free nothing.
//! And dead processes count until their parent has waited for them: PIDs come back a little later.

use crate::model::{Eviction, EvictionCause, Hold, Resource, Signal};

/// What became of the disk, or of the PIDs, for which somebody was last evicted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FillingGuard {
    last: Option<Last>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
struct Last {
    signal: Signal,
    /// Available when it was decided, and when it was looked at last.
    before: i64,
    last: Option<i64>,
}

/// Changes of less than this part of the capacity mean nothing.
const NOISE: i64 = 1_000;

impl FillingGuard {
    pub fn evicted(&mut self, eviction: &Eviction) {
        if let Some((signal, available, _)) = figures(eviction) {
            self.last = Some(Last {
                signal,
                before: available,
                last: None,
            });
        }
    }

    /// The pressure is over, or the victim is still there: what comes next stands for itself.
    pub fn forget(&mut self) {
        self.last = None;
    }

    /// Why a further eviction for the same signal is held back, if it is. It is not while the use goes on
    /// growing (then somebody else does it), nor where the last eviction has freed something and all of it.
    pub fn hold(&mut self, eviction: &Eviction) -> Option<Hold> {
        let (signal, available, noise) = figures(eviction)?;
        let evicted = self.last.as_mut().filter(|last| last.signal == signal)?;
        let Some(last) = evicted.last else {
            evicted.last = Some(available);
            return Some(Hold::Recovering { signal, available });
        };
        if available < last.saturating_sub(noise) {
            return None;
        }
        if available > last.saturating_add(noise) {
            evicted.last = Some(available);
            return Some(Hold::Recovering { signal, available });
        }
        let has_freed = available > evicted.before.saturating_add(noise);
        (!has_freed).then_some(Hold::NotFilling { signal, available })
    }
}

/// The signal, what is available, and what change of it means nothing. Memory comes back with the process.
fn figures(eviction: &Eviction) -> Option<(Signal, i64, i64)> {
    match &eviction.cause {
        EvictionCause::Pressure {
            resource: Resource::EphemeralStorage | Resource::Inodes | Resource::Pids,
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
