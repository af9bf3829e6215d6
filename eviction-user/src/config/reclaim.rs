//! What frees disk space before a workload has to go: on a host a command, for pods the container runtime.

use crate::host::ReclaimCommand;
use crate::model::Span;
use crate::model::span::SpanError;
use std::time::Duration;

const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReclaimError {
    #[error(
        "--reclaim is empty: give a shell command, as in --reclaim 'journalctl --vacuum-size=1G'"
    )]
    Empty,
    #[error(
        "--reclaim is given, but no threshold is about a disk: add one to --eviction-hard, as in 'nodefs.available<10%'"
    )]
    NoDisk,
    #[error(
        "--reclaim {0:?}: with --platform kubernetes it is `runtime` (the container runtime removes dead containers and unused images before a pod goes) or `off` (that is left to the kubelet)"
    )]
    NotForPods(String),
    #[error(
        "--reclaim runtime is given, but no threshold is about a disk: add one to --eviction-hard, as in 'nodefs.available<5%', or leave it out"
    )]
    NoDiskOfPods,
    #[error("--reclaim-timeout has no effect without --reclaim")]
    IdleTimeout,
    #[error("--reclaim-timeout: {0}; give a duration, as in 90s")]
    Timeout(SpanError),
    #[error("--reclaim-timeout: {0} must be positive")]
    NotPositive(String),
}

pub(super) fn resolve(
    command: Option<&str>,
    timeout: Option<&str>,
    watches_a_disk: bool,
) -> Result<Option<ReclaimCommand>, ReclaimError> {
    let Some(command) = command else {
        return match timeout {
            None => Ok(None),
            Some(_) => Err(ReclaimError::IdleTimeout),
        };
    };
    if command.trim().is_empty() {
        return Err(ReclaimError::Empty);
    }
    if !watches_a_disk {
        return Err(ReclaimError::NoDisk);
    }
    Ok(Some(ReclaimCommand {
        command: command.to_owned(),
        limit: timeout.map_or(Ok(DEFAULT_LIMIT), limit)?,
    }))
}

/// Is the runtime to do it? `None`: where there is something to do.
pub(super) fn of_pods(word: Option<&str>, watches_a_disk: bool) -> Result<bool, ReclaimError> {
    match word {
        None => Ok(watches_a_disk),
        Some("off") => Ok(false),
        Some("runtime") if watches_a_disk => Ok(true),
        Some("runtime") => Err(ReclaimError::NoDiskOfPods),
        Some(other) => Err(ReclaimError::NotForPods(other.to_owned())),
    }
}

fn limit(text: &str) -> Result<Duration, ReclaimError> {
    let span: Span = text.parse().map_err(ReclaimError::Timeout)?;
    let nanos = u64::try_from(span.as_nanos()).unwrap_or(0);
    if nanos == 0 {
        return Err(ReclaimError::NotPositive(text.to_owned()));
    }
    Ok(Duration::from_nanos(nanos))
}
