//! The command line.

use clap::{Parser, Subcommand};

/// Set-up, build, checks and tests of eviction.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Install and fetch what this machine lacks: packages, toolchain parts, guest kernels
    Setup {
        /// Only say what is there and what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Build the static release binary, target/release/eviction
    Build,
}
