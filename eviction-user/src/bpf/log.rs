//! `--bpf-log`: what the programs say, passed on to tracing. Without it there is no reader and the verifier has removed the
//! code that would speak.

use std::os::fd::{AsRawFd, RawFd};

use aya_log::EbpfLogger;
use tokio::io::unix::AsyncFd;

/// `EbpfLogger` speaks the `log` crate; the program's log is tracing.
struct Forward;

impl log::Log for Forward {
    fn enabled(&self, _metadata: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        tracing::info!(target: "eviction::bpf::program", level = %record.level(), "{}", record.args());
    }

    fn flush(&self) {}
}

struct OwnedLogger(EbpfLogger<Forward>);

impl AsRawFd for OwnedLogger {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error("the programs' log cannot be opened")]
    Open(#[from] aya_log::Error),
    #[error(
        "the programs' log cannot be registered with the event loop (is there a tokio runtime?)"
    )]
    Register(#[source] std::io::Error),
    #[error("waiting for the programs' log")]
    Wait(#[source] std::io::Error),
}

/// Reads the programs' log for as long as it is polled.
pub struct LogReader(AsyncFd<OwnedLogger>);

impl LogReader {
    pub(super) fn new(ebpf: &mut aya::Ebpf) -> Result<Self, LogError> {
        let logger = OwnedLogger(EbpfLogger::init_with_logger(ebpf, Forward)?);
        // SAFETY: `OwnedLogger` owns its ring's descriptor for its whole life and has no way to exchange it.
        let registered = unsafe { AsyncFd::register(logger) };
        Ok(Self(
            registered.map_err(|error| LogError::Register(error.into()))?,
        ))
    }

    pub async fn run(mut self) -> Result<std::convert::Infallible, LogError> {
        loop {
            let mut guard = self.0.readable_mut().await.map_err(LogError::Wait)?;
            guard.get_inner_mut().0.flush();
            guard.clear_ready();
        }
    }
}
