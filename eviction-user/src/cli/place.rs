//! Where a signal is measured, so that nobody looks at the wrong disk (user case 20).

use super::host_args::Host;
use crate::model::Signal;
use crate::sys::filesystem::FileSystem;
use crate::telemetry::record::Places;
use nix::sys::stat::{major, minor};
use procfs::process::Process;
use std::path::PathBuf;

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
    match mount_point(fs, &device) {
        Some(mount) => format!("device {device} at {}", mount.display()),
        // Some file systems give their paths device numbers that no mount has (btrfs).
        None => format!("device {device} of {}", fs.path().display()),
    }
}

/// Of several mounts of the device the one that the path is below.
fn mount_point(fs: &FileSystem, device: &str) -> Option<PathBuf> {
    let path = fs.path().canonicalize().ok()?;
    let mounts = Process::myself().and_then(|me| me.mountinfo()).ok()?;
    mounts
        .into_iter()
        .filter(|mount| mount.majmin == device && path.starts_with(&mount.mount_point))
        .map(|mount| mount.mount_point)
        .max_by_key(|mount| mount.components().count())
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
