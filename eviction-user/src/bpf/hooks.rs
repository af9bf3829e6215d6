//! Loading and attaching one rung's program.

use std::path::Path;

use aya::{
    Btf, Ebpf,
    programs::{FEntry, KProbe, PerfEvent, Program, ProgramError, RawTracePoint},
};
use eviction_ebpf::abi::{Rung, names::program};

use super::faults::{FaultError, FaultEvents};

#[derive(Debug, thiserror::Error)]
pub(super) enum HookError {
    #[error("the object has no program {0}")]
    Missing(&'static str),
    #[error("BTF cannot be parsed")]
    Btf(#[from] aya::BtfError),
    #[error("it cannot be loaded or attached")]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Faults(#[from] FaultError),
}

const RECLAIM_BEGINS: [&str; 2] = [
    "mm_vmscan_direct_reclaim_begin",
    "mm_vmscan_memcg_reclaim_begin",
];
const RECLAIM_ENDS: [&str; 2] = [
    "mm_vmscan_direct_reclaim_end",
    "mm_vmscan_memcg_reclaim_end",
];

/// The object, and what attaching needs besides.
pub(super) struct Hooks<'a> {
    ebpf: &'a mut Ebpf,
    btf_path: &'a Path,
    /// Parsed when the first rung asks for it.
    btf: Option<Btf>,
}

impl<'a> Hooks<'a> {
    pub(super) fn new(ebpf: &'a mut Ebpf, btf_path: &'a Path) -> Self {
        Self {
            ebpf,
            btf_path,
            btf: None,
        }
    }

    /// Attaches; perf events come back because their period is changed later. All other links live in the object.
    pub(super) fn attach(&mut self, rung: Rung) -> Result<Option<FaultEvents>, HookError> {
        match rung {
            Rung::FentryCharge => self.fentry(program::CHARGE_FENTRY, "page_counter_try_charge")?,
            Rung::KprobeCharge => self.kprobe(program::CHARGE_KPROBE, "page_counter_try_charge")?,
            Rung::PerfFaults => return self.faults().map(Some),
            Rung::TraceFilemap => {
                self.raw(program::CHARGE_FILEMAP, &["mm_filemap_add_to_page_cache"])?
            }
            Rung::TracePageAlloc => self.raw(program::CHARGE_ALLOC, &["mm_page_alloc"])?,
            Rung::FentryInode => self.fentry(program::INODE_FENTRY, "inode_init_owner")?,
            Rung::KprobeInode => self.kprobe(program::INODE_KPROBE, "inode_init_owner")?,
            Rung::TraceExt4 => self.raw(program::INODE_EXT4, &["ext4_allocate_inode"])?,
            Rung::TraceXfs => self.raw(program::INODE_XFS, &["xfs_create", "xfs_symlink"])?,
            Rung::TraceBtrfs => self.raw(program::INODE_BTRFS, &["btrfs_inode_new"])?,
            Rung::TraceNewTask => self.raw(program::NEW_TASK, &["task_newtask"])?,
            Rung::TraceOom => self.raw(program::OOM, &["mark_victim"])?,
            Rung::TraceReclaim => self.pair(
                (program::RECLAIM_END, &RECLAIM_ENDS),
                (program::RECLAIM_BEGIN, &RECLAIM_BEGINS),
            )?,
            Rung::TraceCgroups => self.pair(
                (program::CGROUP_GONE, &["cgroup_rmdir"]),
                (program::CGROUP_MADE, &["cgroup_mkdir"]),
            )?,
        }
        Ok(None)
    }

    fn program<'p, T>(&'p mut self, name: &'static str) -> Result<&'p mut T, HookError>
    where
        &'p mut T: TryFrom<&'p mut Program, Error = ProgramError>,
    {
        Ok(self
            .ebpf
            .program_mut(name)
            .ok_or(HookError::Missing(name))?
            .try_into()?)
    }

    fn fentry(&mut self, name: &'static str, function: &str) -> Result<(), HookError> {
        let btf = match self.btf.take() {
            Some(btf) => btf,
            None => Btf::parse_file(self.btf_path, aya::Endianness::default())?,
        };
        let program: &mut FEntry = self.program(name)?;
        let loaded = program.load(function, &btf);
        let attached = loaded.and_then(|()| program.attach());
        self.btf = Some(btf);
        attached?;
        Ok(())
    }

    fn kprobe(&mut self, name: &'static str, function: &str) -> Result<(), HookError> {
        let program: &mut KProbe = self.program(name)?;
        program.load()?;
        program.attach(function, 0)?;
        Ok(())
    }

    fn raw(&mut self, name: &'static str, tracepoints: &[&str]) -> Result<(), HookError> {
        let program: &mut RawTracePoint = self.program(name)?;
        program.load()?;
        let attached = tracepoints
            .iter()
            .try_for_each(|tracepoint| program.attach(tracepoint).map(drop));
        if attached.is_err() {
            // Half of a rung would count half of what happens. That it cannot be unloaded is not to be expected.
            let _ = program.unload();
        }
        Ok(attached?)
    }

    /// Two programs that make sense together only.
    fn pair(
        &mut self,
        first: (&'static str, &[&str]),
        second: (&'static str, &[&str]),
    ) -> Result<(), HookError> {
        self.raw(first.0, first.1)?;
        let attached = self.raw(second.0, second.1);
        if attached.is_err() {
            let program: &mut RawTracePoint = self.program(first.0)?;
            // As in `raw`.
            let _ = program.unload();
        }
        attached
    }

    fn faults(&mut self) -> Result<FaultEvents, HookError> {
        let program: &mut PerfEvent = self.program(program::CHARGE_FAULTS)?;
        program.load()?;
        Ok(FaultEvents::attach(program.fd()?)?)
    }
}
