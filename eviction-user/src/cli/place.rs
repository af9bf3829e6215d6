//! Where a signal is measured, so that nobody looks at the wrong disk (user case 20).

use super::host_args::Host;
use crate::model::Signal;
use crate::sys::filesystem::FileSystem;
use crate::telemetry::record::Places;
use nix::sys::stat::{major, minor};

pub(super) fn of(signal: Signal, host: &Host) -> String {
    match (signal, host.file_systems.of(signal)) {
        (Signal::MemoryAvailable | Signal::PidAvailable, _) => "node".to_owned(),
        (Signal::AllocatableMemoryAvailable, _) => host.root.path().display().to_string(),
        (_, Some(fs)) => file_system(fs),
        (_, None) => "nowhere".to_owned(),
    }
}

/// Of all signals that are watched.
pub(super) fn all(host: &Host) -> Places {
    let watched = Signal::ALL.into_iter().filter(|s| host.watches(*s));
    watched.map(|signal| (signal, of(signal, host))).collect()
}

/// Device and mount point of the file system that a path is on.
fn file_system(fs: &FileSystem) -> String {
    let device = format!("{}:{}", major(fs.device), minor(fs.device));
    match &fs.mount {
        Some(mount) => format!("device {device} at {}", mount.point.display()),
        None => format!("device {device} of {}", fs.path().display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_told_by_device_and_mount() {
        let fs = FileSystem::at("/proc/self".as_ref()).unwrap();
        let told = file_system(&fs);
        assert!(
            told.starts_with("device ") && told.ends_with(" at /proc"),
            "{told}"
        );
    }
}
