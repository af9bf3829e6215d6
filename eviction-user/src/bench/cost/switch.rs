//! The hooks of `eviction run`, armed, attached and detached within milliseconds. A machine that others use too is slower for
//! seconds on end: only loops that follow each other at once can be compared.

use crate::bench::BenchError;
use crate::bpf::{AttachOptions, Attached, Facts, FactsOptions, KernelEvents, Wanted, plan};
use crate::model::Signal;
use crate::ports::{Distance, PressureSource};
use crate::sys::cgroup::Hierarchy;
use crate::sys::filesystem::FileSystem;
use crate::sys::node_memory::NodeMemoryReader;
use tokio::runtime::Builder;

/// Inodes, bytes or tasks: farther than any loop comes.
const FAR: i64 = 1 << 40;

pub(super) struct Switch {
    node: NodeMemoryReader,
    events: KernelEvents,
}

impl Switch {
    /// Attaches what `eviction run` would, and takes it away. `files`: the file system whose inodes and bytes are watched.
    pub(super) fn new(
        files: &FileSystem,
        hierarchy: &Hierarchy,
        mut options: AttachOptions,
    ) -> Result<Self, BenchError> {
        let mut wanted = Wanted {
            node_memory: true,
            pids: true,
            ..Wanted::default()
        };
        wanted.add_device(Signal::NodeFsInodesFree, files);
        wanted.add_device(Signal::NodeFsAvailable, files);
        options.families = Some(wanted.families_to_attach());
        let facts = Facts::gather(&FactsOptions::default());
        let attached = Attached::attach(&facts, &plan(&facts), &options);
        if !attached.report().has_any() {
            return Err(BenchError::NoHook);
        }
        // The events' descriptors want a runtime, which need not run: nobody listens.
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(BenchError::system("start a runtime"))?;
        let _entered = runtime.enter();
        let mut switch = Self {
            node: NodeMemoryReader::open(hierarchy)?,
            events: KernelEvents::open(attached, &wanted, None)?,
        };
        switch.off()?;
        Ok(switch)
    }

    /// Attaches all hooks, and arms every line far from where the node is.
    pub(super) fn on(&mut self) -> Result<(), BenchError> {
        self.events.attached_mut().resume()?;
        self.events.mark();
        let node = self.node.read()?;
        let left = node.available();
        let memory = Distance {
            left: i64::try_from(left).unwrap_or(i64::MAX),
            level: Some(node.counted.saturating_add(left)),
        };
        let far = Distance {
            left: FAR,
            level: None,
        };
        for (signal, distance) in [
            (Signal::MemoryAvailable, memory),
            (Signal::NodeFsInodesFree, far),
            (Signal::NodeFsAvailable, far),
            (Signal::PidAvailable, far),
        ] {
            self.events.arm(signal, distance);
        }
        Ok(())
    }

    pub(super) fn off(&mut self) -> Result<(), BenchError> {
        Ok(self.events.attached_mut().suspend()?)
    }
}
