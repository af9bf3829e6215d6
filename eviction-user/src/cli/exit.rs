//! The exit codes, everywhere the same.

use std::process::{ExitCode, Termination};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Good = 0,
    /// Something failed while it ran.
    Runtime = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// No eBPF here: it runs, on the timer alone.
    FallbackOnly = 3,
    /// A privilege is missing.
    Privilege = 4,
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        ExitCode::from(self as u8)
    }
}
