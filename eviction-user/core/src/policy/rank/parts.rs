//! Which parts of a pod's disk use count for which signal.

use super::super::reclaim::FsSignal;
use super::super::usage::DiskParts;
use crate::model::{FsLayout, Signal};

/// The parts that live on the file system of a disk signal; `None` for the other signals.
pub fn disk_parts(signal: Signal, layout: FsLayout) -> Option<DiskParts> {
    const ALL: DiskParts = DiskParts {
        root: true,
        logs: true,
        local_volumes: true,
    };
    const ROOT: DiskParts = DiskParts {
        root: true,
        logs: false,
        local_volumes: false,
    };
    const LOGS_AND_VOLUMES: DiskParts = DiskParts {
        root: false,
        logs: true,
        local_volumes: true,
    };
    // Only images live there, and nothing measures those per pod.
    const NOTHING: DiskParts = DiskParts {
        root: false,
        logs: false,
        local_volumes: false,
    };
    let signal = FsSignal::of(signal)?;
    Some(
        match (layout.dedicated_imagefs, layout.split_containerfs, signal) {
            // The kubelet does not expect a split without a dedicated image file system.
            (false, _, _) => ALL,
            (true, false, FsSignal::Node) => LOGS_AND_VOLUMES,
            (true, false, FsSignal::Image | FsSignal::Container) => ROOT,
            (true, true, FsSignal::Node | FsSignal::Container) => ALL,
            (true, true, FsSignal::Image) => NOTHING,
        },
    )
}
