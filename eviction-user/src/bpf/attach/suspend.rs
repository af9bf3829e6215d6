//! Taking all hooks away for a moment, and putting them back: a benchmark compares what goes on with and without them.

use super::Attached;
use crate::bpf::{
    attach::AttachOptions,
    facts::Facts,
    faults::FaultError,
    hooks::{HookError, Hooks},
};
use aya::programs::ProgramError;
use eviction_ebpf::abi::Rung;

#[derive(Debug, thiserror::Error)]
pub enum SuspendError {
    #[error("a hook cannot be detached")]
    Detach(#[from] ProgramError),
    #[error(transparent)]
    Faults(#[from] FaultError),
    #[error("a hook that was attached cannot be attached again: {0}")]
    Attach(Rung, #[source] Box<dyn std::error::Error + Send + Sync>),
}

impl SuspendError {
    fn attach(rung: Rung) -> impl FnOnce(HookError) -> Self {
        move |error| Self::Attach(rung, Box::new(error))
    }
}

impl Attached {
    /// Detaches all that is attached; the programs stay loaded, and slots stay armed.
    pub fn suspend(&mut self) -> Result<(), SuspendError> {
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        for link in std::mem::take(&mut live.links) {
            link.detach(&mut live.ebpf)?;
        }
        if let Some(faults) = &live.faults {
            faults.enable(false)?;
        }
        Ok(())
    }

    /// Attaches the same again. `facts` and `options` are those of the start.
    pub fn resume(&mut self, facts: &Facts, options: &AttachOptions) -> Result<(), SuspendError> {
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        let mut hooks = Hooks::new(&mut live.ebpf, &options.btf);
        for rung in self.report.rungs() {
            if rung != Rung::PerfFaults {
                hooks
                    .attach(rung, facts)
                    .map_err(SuspendError::attach(rung))?;
            }
        }
        live.links = hooks.into_links();
        if let Some(faults) = &live.faults {
            faults.enable(true)?;
        }
        Ok(())
    }
}
