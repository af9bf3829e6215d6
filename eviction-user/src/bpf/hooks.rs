//! Loading and attaching one rung's program.

use std::{path::Path, rc::Rc};

use aya::{
    Btf, Ebpf,
    programs::{
        BtfTracePoint, FEntry, FExit, KProbe, PerfEvent, Program, ProgramError, RawTracePoint,
        fentry::FEntryLinkId, fexit::FExitLinkId, kprobe::KProbeLinkId,
        raw_trace_point::RawTracePointLinkId, tp_btf::BtfTracePointLinkId,
    },
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
    #[error("the program {0} is of another kind than its place")]
    Kind(&'static str),
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

/// A program, and a place that it can be attached to.
pub(super) struct Place {
    program: &'static str,
    /// A symbol or a tracepoint; the other kinds are loaded for theirs.
    target: String,
}

/// A program at its place.
pub(super) struct Link {
    place: Place,
    id: LinkId,
}

enum LinkId {
    Fentry(FEntryLinkId),
    Fexit(FExitLinkId),
    Kprobe(KProbeLinkId),
    RawTracepoint(RawTracePointLinkId),
    BtfTracepoint(BtfTracePointLinkId),
}

impl Place {
    /// Attaches the program, which is loaded.
    pub(super) fn attach(self, ebpf: &mut Ebpf) -> Result<Link, HookError> {
        let program = ebpf.program_mut(self.program);
        let id = match program.ok_or(HookError::Missing(self.program))? {
            Program::FEntry(program) => LinkId::Fentry(program.attach()?),
            Program::FExit(program) => LinkId::Fexit(program.attach()?),
            Program::KProbe(program) => LinkId::Kprobe(program.attach(&self.target, 0)?),
            Program::RawTracePoint(program) => LinkId::RawTracepoint(program.attach(&self.target)?),
            Program::BtfTracePoint(program) => LinkId::BtfTracepoint(program.attach()?),
            _ => return Err(HookError::Kind(self.program)),
        };
        Ok(Link { place: self, id })
    }
}

impl Link {
    /// Takes the program away from the place; it stays loaded.
    pub(super) fn detach(self, ebpf: &mut Ebpf) -> Result<Place, HookError> {
        let name = self.place.program;
        let program = ebpf.program_mut(name).ok_or(HookError::Missing(name))?;
        match (program, self.id) {
            (Program::FEntry(program), LinkId::Fentry(id)) => program.detach(id),
            (Program::FExit(program), LinkId::Fexit(id)) => program.detach(id),
            (Program::KProbe(program), LinkId::Kprobe(id)) => program.detach(id),
            (Program::RawTracePoint(program), LinkId::RawTracepoint(id)) => program.detach(id),
            (Program::BtfTracePoint(program), LinkId::BtfTracepoint(id)) => program.detach(id),
            _ => return Err(HookError::Kind(name)),
        }?;
        Ok(self.place)
    }
}

/// The object, and what attaching needs besides.
pub(super) struct Hooks<'a> {
    ebpf: &'a mut Ebpf,
    btf_path: &'a Path,
    btf: Option<Rc<Btf>>,
    /// Of all that is attached, but for perf events.
    links: Vec<Link>,
}

impl<'a> Hooks<'a> {
    pub(super) fn new(ebpf: &'a mut Ebpf, btf_path: &'a Path) -> Self {
        Self {
            ebpf,
            btf_path,
            btf: None,
            links: Vec::new(),
        }
    }

    pub(super) fn into_links(self) -> Vec<Link> {
        self.links
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
        let before = self.links.len();
        let attached = parts.iter().try_fold(0, |places, part| {
            self.part(part, facts).map(|more| places + more)
        });
        if attached.is_err() {
            // Half of a rung would count half of what happens.
            for link in self.links.split_off(before) {
                // What cannot be detached goes with its program, or with the object.
                let _ = link.detach(self.ebpf);
            }
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
            }
            How::Fexit => {
                let btf = self.btf()?;
                let program: &mut FExit = self.program(name)?;
                loaded(program.load(target, &btf))?;
            }
            How::Kprobe | How::Kretprobe => {
                let program: &mut KProbe = self.program(name)?;
                loaded(program.load())?;
                let symbols = facts.symbols_of(target);
                for symbol in &symbols {
                    self.place(name, symbol)?;
                }
                return Ok(symbols.len());
            }
            How::RawTracepoint => {
                if self.typed(part).is_some() {
                    return Ok(1);
                }
                let program: &mut RawTracePoint = self.program(name)?;
                loaded(program.load())?;
            }
        }
        self.place(name, target)?;
        Ok(1)
    }

    fn place(&mut self, program: &'static str, target: &str) -> Result<(), HookError> {
        let place = Place {
            program,
            target: target.to_owned(),
        };
        self.links.push(place.attach(self.ebpf)?);
        Ok(())
    }

    /// The twin of a program whose loads the verifier has checked, which is quicker: where there is one, and the verifier knows
    /// the types (those of a module, and some kernels', it does not).
    fn typed(&mut self, part: &Part) -> Option<()> {
        let twin = match part.program {
            program::CHARGE_FILEMAP => program::CHARGE_FILEMAP_TYPED,
            program::EXT4_RESERVE => program::EXT4_RESERVE_TYPED,
            program::INODE_EXT4 => program::INODE_EXT4_TYPED,
            program::FREED_EXT4 => program::FREED_EXT4_TYPED,
            _ => return None,
        };
        let btf = self.btf().ok()?;
        let program: &mut BtfTracePoint = self.program(twin).ok()?;
        loaded(program.load(part.target, &btf)).ok()?;
        self.place(twin, part.target).ok()
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
