//! The nine signals: whether each can be measured here, and who says when to look.

use super::super::fs_args::FsArgs;
use super::checks::{Check, State};
use crate::bpf::{Attached, Family, Wanted};
use crate::model::{Resource, Signal};
use crate::sys::cgroup::Hierarchy;
use crate::sys::distant::Opening;
use crate::sys::node_memory::NodeMemoryReader;
use crate::sys::node_tasks::NodeTasksReader;
use crate::sys::trust;
use bytesize::ByteSize;
use std::path::Path;

pub(super) fn signals(attached: &Attached, paths: &FsArgs) -> Vec<Check> {
    let check = |signal: Signal| {
        let found = match paths.of(signal) {
            Some(path) => on_file_system(signal, path, attached),
            None => measured(signal).map(|measured| (measured, told(signal, attached))),
        };
        let (state, detail, fix) = match found {
            Ok((measured, told)) => (State::Used, format!("{measured}; {told}"), None),
            Err(error) => (
                State::Absent,
                error,
                Some(format!("leave {signal} out, or mount what is missing")),
            ),
        };
        Check {
            area: "signals",
            item: signal.name().to_owned(),
            state,
            detail,
            fix,
        }
    };
    Signal::ALL.map(check).into()
}

/// Who says when to look, as far as that does not depend on the file system.
fn told(signal: Signal, attached: &Attached) -> String {
    let family = match signal.resource() {
        Resource::Memory => Family::Memory,
        Resource::Inodes => Family::Inodes,
        Resource::Pids => Family::Pids,
        Resource::EphemeralStorage => return "told by hooks of its kind, see below".to_owned(),
    };
    source(family, attached)
}

fn source(family: Family, attached: &Attached) -> String {
    match attached.report().of(family).source() {
        "none" => "looked at on a timer".to_owned(),
        source => format!("told by {source}"),
    }
}

/// Figures, and who says when to look: not every file system can be followed by hooks.
fn on_file_system(
    signal: Signal,
    path: &Path,
    attached: &Attached,
) -> Result<(String, String), String> {
    let fs = Opening::start(path).wait().map_err(|e| e.to_string())?;
    let read = fs.read().map_err(|e| e.to_string())?;
    let kind = fs
        .mount
        .as_ref()
        .map_or("unknown", |mount| mount.kind.name());
    let measured = match signal.resource() {
        Resource::Inodes if read.inodes == 0 => {
            return Err(format!(
                "{kind} at {} makes inodes as needed",
                path.display()
            ));
        }
        Resource::Inodes => format!("{} of {} inodes", read.inodes_free, read.inodes),
        _ => format!(
            "{} of {}",
            ByteSize::b(read.available_bytes),
            ByteSize::b(read.capacity_bytes)
        ),
    };
    let mut wanted = Wanted::default();
    wanted.add_device(signal, &fs);
    let mut told: Vec<_> = wanted.doubts.clone();
    let report = attached.report();
    for device in &wanted.devices {
        told.push(if attached.sees(device.family, &device.kind) {
            source(report.serving(device.family), attached)
        } else {
            "looked at on a timer".to_owned()
        });
    }
    told.extend(wanted.bounded(report));
    let thin = fs.mount.as_ref().and_then(trust::thin_loop);
    told.extend(thin.map(|doubt| doubt.to_string()));
    Ok((
        format!("{measured} ({kind} at {})", path.display()),
        told.join("; "),
    ))
}

/// Now, where that needs no flag.
fn measured(signal: Signal) -> Result<String, String> {
    match signal {
        Signal::MemoryAvailable => {
            let hierarchy = Hierarchy::detect().map_err(|e| e.to_string())?;
            let memory = NodeMemoryReader::open(&hierarchy).and_then(|reader| reader.read());
            let memory = memory.map_err(|e| e.to_string())?;
            Ok(format!(
                "{} of {}",
                ByteSize::b(memory.available()),
                ByteSize::b(memory.total)
            ))
        }
        Signal::PidAvailable => {
            let tasks = NodeTasksReader::open().and_then(|reader| reader.read());
            let tasks = tasks.map_err(|e| e.to_string())?;
            let (most, running) = (tasks.max_pid.unwrap_or(0), tasks.running.unwrap_or(0));
            Ok(format!("{} of {most} tasks", most - running))
        }
        Signal::AllocatableMemoryAvailable => Ok("of --root against its own limit".to_owned()),
        Signal::NodeFsAvailable | Signal::NodeFsInodesFree => Ok("of --nodefs".to_owned()),
        Signal::ImageFsAvailable | Signal::ImageFsInodesFree => Ok("of --imagefs".to_owned()),
        Signal::ContainerFsAvailable | Signal::ContainerFsInodesFree => {
            Ok("of --containerfs".to_owned())
        }
    }
}
