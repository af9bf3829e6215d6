//! The one place where the clock is read.

use crate::model::Timestamp;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CLOCK_MONOTONIC, the clock of `bpf_ktime_get_ns`, so kernel events and looks can be compared.
pub fn now() -> Timestamp {
    // clock_gettime fails for an unknown clock only; CLOCK_MONOTONIC exists on every Linux.
    clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map(|t| Timestamp::from_nanos(t.tv_sec() * 1_000_000_000 + t.tv_nsec()))
        .unwrap_or(Timestamp::from_nanos(0))
}

/// From `earlier` to `later`; zero if they are the other way round.
pub fn between(earlier: Timestamp, later: Timestamp) -> Duration {
    Duration::from_nanos(u64::try_from(later.since(earlier).as_nanos()).unwrap_or(0))
}

/// So much later.
pub fn later(moment: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_nanos()).unwrap_or(i64::MAX);
    Timestamp::from_nanos(moment.as_nanos().saturating_add(by))
}

pub fn elapsed_since(earlier: Timestamp) -> Duration {
    between(earlier, now())
}
