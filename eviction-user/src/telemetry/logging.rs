//! Logs on stderr: text on a terminal, JSON lines elsewhere.

use clap::ValueEnum;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    Text,
    Json,
}

/// The log filter could not be understood.
#[derive(Debug, thiserror::Error)]
#[error("--log-level {text}: {source}; try info, debug, or eviction_user=debug")]
pub struct LogLevelError {
    text: String,
    source: tracing_subscriber::filter::ParseError,
}

/// Sets up logging for the whole process. `level`: a name or a filter in the syntax of `RUST_LOG`.
pub fn init(level: &str, format: LogFormat) -> Result<(), LogLevelError> {
    let filter = EnvFilter::builder()
        .parse(level)
        .map_err(|source| LogLevelError {
            text: level.to_owned(),
            source,
        })?;
    let terminal = std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let json = format == LogFormat::Json || (format == LogFormat::Auto && !terminal);
    let colour = terminal && std::env::var_os("NO_COLOR").is_none();
    // Fails only if logging was set up before, and then it is.
    let _ = if json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_ansi(colour).try_init()
    };
    Ok(())
}
