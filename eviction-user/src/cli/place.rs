//! Where a signal is measured, so that nobody looks at the wrong disk (user case 20).

use super::host_args::Host;
use crate::model::Signal;
use crate::telemetry::record::Places;

pub(super) fn of(signal: Signal, host: &Host) -> String {
    match (signal, host.file_systems.of(signal)) {
        (Signal::MemoryAvailable | Signal::PidAvailable, _) => "node".to_owned(),
        (Signal::AllocatableMemoryAvailable, _) => host.root.path().display().to_string(),
        (_, Some(fs)) => fs.place().to_string(),
        (_, None) => "nowhere".to_owned(),
    }
}

/// Of all signals that are watched.
pub(super) fn all(host: &Host) -> Places {
    let watched = Signal::ALL.into_iter().filter(|s| host.watches(*s));
    watched.map(|signal| (signal, of(signal, host))).collect()
}
