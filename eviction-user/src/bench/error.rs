//! Why a benchmark has no result.

use crate::bpf::{OpenError, SuspendError};
use crate::sys::cgroup::CgroupError;
use crate::sys::filesystem::FileSystemError;
use crate::sys::reader::ReadError;
use crate::sys::realtime::RealtimeError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    #[error("interrupted")]
    Interrupted,
    #[error("no eBPF hook can be attached here; `eviction doctor` says why")]
    NoHook,
    #[error("no eBPF hook for {0} can be attached here; `eviction doctor` says why")]
    NoStormHook(&'static str),
    #[error(transparent)]
    Realtime(#[from] RealtimeError),
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    FileSystem(#[from] FileSystemError),
    #[error(transparent)]
    Events(#[from] OpenError),
    #[error(transparent)]
    Suspend(#[from] SuspendError),
    #[error("cannot {what} {path}: {source}")]
    File {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("cannot {what}: {source}")]
    System {
        what: &'static str,
        source: io::Error,
    },
    #[error("the helper process failed: {0}")]
    Helper(String),
    #[error("the helper process has ended (was it killed? `dmesg` would tell of the OOM killer)")]
    HelperEnded,
    #[error("the helper process said something unexpected: {0}")]
    Protocol(serde_json::Error),
    #[error("the listener {0} ended unexpectedly")]
    ListenerEnded(&'static str),
    #[error(
        "`eviction run` printed no {kind} record within {limit:?}; what it says itself stands above"
    )]
    NoRecord { kind: &'static str, limit: Duration },
    #[error("the victim was not killed within {0:?}")]
    NotKilled(Duration),
    #[error(
        "the kernel counts program runs for all (kernel.bpf_stats_enabled), which makes each of them dearer; \
         first set `sysctl kernel.bpf_stats_enabled=0`"
    )]
    StatsOn,
    #[error("the kernel does not count program runs: {0}")]
    RunStats(#[from] aya::sys::SyscallError),
}

impl BenchError {
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }
}
