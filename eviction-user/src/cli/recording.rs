//! The flags of `eviction run` about recording.

use super::Failure;
use crate::model::Quantity;
use crate::policy::EngineConfig;
use crate::record::{Limits, Platform, Recorder, RunFacts};
use crate::sys::clock;
use clap::Args;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

/// Below this a file would hold next to nothing.
const SMALLEST_FILE: u64 = 64 << 10;

#[derive(Debug, Args)]
pub(super) struct RecordingArgs {
    /// Record what is measured, decided and done into this directory, for `eviction replay`.
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Keep about this much of recordings, of this and earlier runs; the oldest go first.
    #[arg(
        long,
        value_name = "QUANTITY",
        default_value = "256Mi",
        requires = "record"
    )]
    record_max_size: String,
    /// Into how many files that is divided.
    #[arg(long, value_name = "N", default_value_t = 8, requires = "record", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    record_files: u32,
}

impl RecordingArgs {
    pub(super) fn is_asked_for(&self) -> bool {
        self.record.is_some()
    }
}

/// Starts recording if that is asked for.
pub(super) fn start(
    args: &RecordingArgs,
    config: &EngineConfig,
    dry_run: bool,
) -> Result<Option<(Recorder, JoinHandle<()>)>, Failure> {
    let Some(directory) = &args.record else {
        return Ok(None);
    };
    let limits = limits(args)?;
    let now = clock::now();
    let wall = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_nanos()).ok())
        .unwrap_or(0);
    let facts = RunFacts {
        run: format!("{wall}-{}", std::process::id()),
        epoch_nanos: wall.saturating_sub(now.as_nanos()),
        platform: Platform::Host,
        dry_run,
        config: config.clone(),
    };
    Recorder::start(directory, limits, facts)
        .map(Some)
        .map_err(|e| Failure::usage(&format!("--record: {e}")))
}

fn limits(args: &RecordingArgs) -> Result<Limits, Failure> {
    let text = &args.record_max_size;
    let usage = |why: String| {
        Failure::usage(&format!(
            "--record-max-size {text:?}: {why}; write it as in 256Mi"
        ))
    };
    let size: Quantity = text.parse().map_err(|e| usage(format!("{e}")))?;
    let limits = Limits {
        bytes: u64::try_from(size.value()).unwrap_or(0),
        files: args.record_files,
    };
    if limits.file_bytes() < SMALLEST_FILE {
        return Err(usage(format!(
            "too small for {} files of at least {} KiB each",
            limits.files,
            SMALLEST_FILE >> 10
        )));
    }
    Ok(limits)
}
