//! kvm only where it really works: `/dev/kvm` may exist and still not run a guest (nested virtualisation
//! without all features ends in "emulation failure"). So a kernel is booted once with it, and the answer kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::qemu::Accel;
use super::{CgroupVersion, Guest, run_once};
use crate::setup::Kernel;
use crate::workspace::Workspace;

/// A working kvm boots in about a second; one that hangs must not cost more than this, once.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn best(workspace: &Workspace, kernel: &Kernel) -> Accel {
    if !Path::new("/dev/kvm").exists() {
        return Accel::Tcg;
    }
    let note = note(workspace, kernel);
    match std::fs::read_to_string(&note).as_deref() {
        Ok("kvm") => return Accel::Kvm,
        Ok("tcg") => return Accel::Tcg,
        _ => {}
    }
    let accel = probe(workspace, kernel);
    // Without the note the next guest asks again: slower, not wrong.
    let _ = std::fs::create_dir_all(workspace.cache().join("logs"))
        .and_then(|()| std::fs::write(&note, if accel == Accel::Kvm { "kvm" } else { "tcg" }));
    accel
}

/// Valid for this boot of the host and this kernel.
fn note(workspace: &Workspace, kernel: &Kernel) -> PathBuf {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    workspace
        .cache()
        .join("logs")
        .join(format!("accel-{}-{}", kernel.version(), boot.trim()))
}

fn probe(workspace: &Workspace, kernel: &Kernel) -> Accel {
    let mut guest = Guest::new(kernel.clone(), CgroupVersion::V2, vec!["true".into()]);
    guest.timeout = PATIENCE;
    guest.modules.clear();
    match run_once(workspace, &guest, Accel::Kvm, &mut |_| {}) {
        Ok(finished) if finished.code == 0 => Accel::Kvm,
        _ => Accel::Tcg,
    }
}
