//! Taking all hooks away for a moment, and putting them back: a benchmark compares what goes on with and without them.

use super::Attached;
use crate::bpf::{faults::FaultError, hooks::HookError};

#[derive(Debug, thiserror::Error)]
pub enum SuspendError {
    #[error("a hook cannot be detached, or not be attached again")]
    Hook(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Faults(#[from] FaultError),
}

impl From<HookError> for SuspendError {
    fn from(error: HookError) -> Self {
        Self::Hook(Box::new(error))
    }
}

impl Attached {
    /// Detaches all that is attached; the programs stay loaded, and slots stay armed.
    pub fn suspend(&mut self) -> Result<(), SuspendError> {
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        for link in std::mem::take(&mut live.links) {
            live.suspended.push(link.detach(&mut live.ebpf)?);
        }
        if let Some(faults) = &live.faults {
            faults.enable(false)?;
        }
        Ok(())
    }

    /// Attaches the same again.
    pub fn resume(&mut self) -> Result<(), SuspendError> {
        let Some(live) = &mut self.live else {
            return Ok(());
        };
        for place in std::mem::take(&mut live.suspended) {
            live.links.push(place.attach(&mut live.ebpf)?);
        }
        if let Some(faults) = &live.faults {
            faults.enable(true)?;
        }
        Ok(())
    }
}
