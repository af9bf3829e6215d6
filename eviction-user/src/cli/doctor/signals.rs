//! The nine signals: whether each can be measured here, and who says when to look.

use super::checks::{Check, State};
use crate::bpf::{Family, HookReport};
use crate::model::{Resource, Signal};
use crate::sys::cgroup::Hierarchy;
use crate::sys::node_memory::NodeMemoryReader;
use crate::sys::node_tasks::NodeTasksReader;
use bytesize::ByteSize;

pub(super) fn signals<'a>(report: impl Fn(Family) -> &'a HookReport) -> Vec<Check> {
    let check = |signal: Signal| {
        let events = report(family(signal)).source();
        let told = if events == "none" {
            "looked at on a timer".to_owned()
        } else {
            format!("told by {events}")
        };
        let (state, measured, fix) = match measured(signal) {
            Ok(measured) => (State::Used, measured, None),
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
            detail: format!("{measured}; {told}"),
            fix,
        }
    };
    Signal::ALL.map(check).into()
}

fn family(signal: Signal) -> Family {
    match signal.resource() {
        Resource::Memory => Family::Memory,
        Resource::EphemeralStorage => Family::Bytes,
        Resource::Inodes => Family::Inodes,
        Resource::Pids => Family::Pids,
    }
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
