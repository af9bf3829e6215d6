//! Loading and attaching one rung's program.

use std::{path::Path, rc::Rc};

use aya::{
    Btf, Ebpf,
    programs::{FEntry, FExit, KProbe, PerfEvent, Program, ProgramError, RawTracePoint},
};
use eviction_ebpf::abi::{Rung, names::program};

use super::{
    bundle::{self, How, Part},
    facts::Facts,
    faults::{FaultError, FaultEvents},
};

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

/// A rung that holds.
pub(super) struct Hooked {
    /// Perf events come back because their period is changed later. All other links live in the object.
    pub(super) faults: Option<FaultEvents>,
    /// At how many places it is attached.
    pub(super) places: usize,
}

/// The object, and what attaching needs besides.
pub(super) struct Hooks<'a> {
    ebpf: &'a mut Ebpf,
    btf_path: &'a Path,
    btf: Option<Rc<Btf>>,
}

impl<'a> Hooks<'a> {
    pub(super) fn new(ebpf: &'a mut Ebpf, btf_path: &'a Path) -> Self {
        Self {
            ebpf,
            btf_path,
            btf: None,
        }
    }

    pub(super) fn attach(&mut self, rung: Rung, facts: &Facts) -> Result<Hooked, HookError> {
        if rung == Rung::PerfFaults {
            let faults = self.faults()?;
            return Ok(Hooked {
                places: faults.places(),
                faults: Some(faults),
            });
        }
        let parts = bundle::parts(rung, facts);
        let attached = parts.iter().try_fold(0, |places, part| {
            self.part(part, facts).map(|more| places + more)
        });
        if attached.is_err() {
            // Half of a rung would count half of what happens.
            parts.iter().for_each(|part| self.take_back(part));
        }
        attached.map(|places| Hooked {
            faults: None,
            places,
        })
    }

    /// At how many places it is attached now.
    fn part(&mut self, part: &Part, facts: &Facts) -> Result<usize, HookError> {
        let Part {
            how,
            program: name,
            target,
        } = *part;
        match how {
            How::Fentry => {
                let btf = self.btf()?;
                let program: &mut FEntry = self.program(name)?;
                loaded(program.load(target, &btf))?;
                program.attach()?;
            }
            How::Fexit => {
                let btf = self.btf()?;
                let program: &mut FExit = self.program(name)?;
                loaded(program.load(target, &btf))?;
                program.attach()?;
            }
            How::Kprobe | How::Kretprobe => {
                let program: &mut KProbe = self.program(name)?;
                loaded(program.load())?;
                let symbols = facts.symbols_of(target);
                for symbol in &symbols {
                    program.attach(symbol, 0)?;
                }
                return Ok(symbols.len());
            }
            How::RawTracepoint => {
                let program: &mut RawTracePoint = self.program(name)?;
                loaded(program.load())?;
                program.attach(target)?;
            }
        }
        Ok(1)
    }

    /// Unloads the program, its links with it, unless other rungs have a share in it.
    fn take_back(&mut self, part: &Part) {
        let shared = [program::GIVEN_KRETPROBE, program::STATFS_KPROBE];
        if shared.contains(&part.program) {
            return;
        }
        // What was not loaded cannot be unloaded; nothing else is to be expected.
        let _ = match self.ebpf.program_mut(part.program) {
            Some(Program::FEntry(program)) => program.unload(),
            Some(Program::FExit(program)) => program.unload(),
            Some(Program::KProbe(program)) => program.unload(),
            Some(Program::RawTracePoint(program)) => program.unload(),
            _ => Ok(()),
        };
    }

    /// Parsed when the first rung asks for it.
    fn btf(&mut self) -> Result<Rc<Btf>, HookError> {
        if let Some(btf) = &self.btf {
            return Ok(Rc::clone(btf));
        }
        let btf = Rc::new(Btf::parse_file(self.btf_path, aya::Endianness::default())?);
        Ok(Rc::clone(self.btf.insert(btf)))
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

    fn faults(&mut self) -> Result<FaultEvents, HookError> {
        let program: &mut PerfEvent = self.program(program::CHARGE_FAULTS)?;
        program.load()?;
        Ok(FaultEvents::attach(program.fd()?)?)
    }
}

/// A program that several rungs share is loaded by the first of them.
fn loaded(result: Result<(), ProgramError>) -> Result<(), ProgramError> {
    match result {
        Err(ProgramError::AlreadyLoaded) => Ok(()),
        other => other,
    }
}
