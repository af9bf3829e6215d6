//! The machine: QEMU's command line.

use std::path::Path;
use std::process::Command;

use super::Guest;

pub(super) const PROGRAM: &str = "qemu-system-x86_64";

/// Signs that the kernel is sick must end the guest; but an emulated CPU on a busy machine is slow, not sick,
/// so the limits of the watchdogs are far above what emulation needs.
const CMDLINE: &str = "console=ttyS0 loglevel=6 rdinit=/init panic=-1 oops=panic mitigations=off \
                       watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=300 random.trust_cpu=on";

/// How the guest's CPU is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    Kvm,
    /// QEMU's own emulation: works everywhere, about ten times slower.
    Tcg,
}

/// Files the guest's serial ports end in.
#[derive(Debug)]
pub(super) struct Ports<'a> {
    pub(super) console: &'a Path,
    pub(super) output: &'a Path,
    pub(super) files: &'a Path,
}

pub(super) fn command(guest: &Guest, accel: Accel, initramfs: &Path, ports: &Ports<'_>) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args([
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
    ]);
    command.args(match accel {
        Accel::Kvm => ["-accel", "kvm", "-cpu", "host"],
        Accel::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "max"],
    });
    command.args(["-smp", "2", "-m", &guest.memory_mib.to_string()]);
    command
        .arg("-kernel")
        .arg(guest.kernel.image())
        .arg("-initrd")
        .arg(initramfs)
        .args(["-append", CMDLINE]);
    serial(&mut command, "console", &to_file(ports.console));
    let output = if guest.interactive {
        "stdio,signal=off".into()
    } else {
        to_file(ports.output)
    };
    serial(&mut command, "output", &output);
    serial(&mut command, "files", &to_file(ports.files));
    for (number, disk) in guest.disks.iter().enumerate() {
        command.args([
            "-drive",
            &format!(
                "file={},format=raw,if=none,id=disk{number},cache=unsafe,snapshot={}",
                escaped(disk),
                if guest.keeps_disks { "off" } else { "on" }
            ),
        ]);
        command.args(["-device", &format!("virtio-blk-pci,drive=disk{number}")]);
    }
    if let Some(network) = &guest.network {
        command.args(["-netdev", &network.option("net")]);
        // Nothing is booted from it.
        command.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
    }
    command
}

fn serial(command: &mut Command, id: &str, backend: &str) {
    let (kind, options) = backend.split_once(',').unwrap_or((backend, ""));
    command.args([
        "-chardev",
        &format!("{kind},id={id},{options}"),
        "-serial",
        &format!("chardev:{id}"),
    ]);
}

fn to_file(path: &Path) -> String {
    format!("file,path={}", escaped(path))
}

/// A comma ends an option of QEMU's; two stand for one.
fn escaped(path: &Path) -> String {
    path.to_string_lossy().replace(',', ",,")
}
