//! What a suite's `main` is made of: cases, and the runner that carries them out and counts.
//! The suites themselves are in `suites/`.

mod case;
mod runner;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

pub use case::{Case, Outcome};
pub use runner::{Counts, main, run};

/// Folder of the static programs under test; `cargo xtask test` builds them and sets this.
pub const PROGRAMS: &str = "EVICTION_PROGRAMS";

/// The folder with `eviction`, `eviction-load` and `eviction-scenario`, each built without shared libraries.
pub fn programs() -> Result<PathBuf> {
    let folder = std::env::var_os(PROGRAMS).map(PathBuf::from);
    let folder = folder.with_context(|| {
        format!("{PROGRAMS} is not set: run this suite with `cargo xtask test`")
    })?;
    if !folder.join("eviction").is_file() {
        bail!(
            "{PROGRAMS}={}: there is no `eviction` in it",
            folder.display()
        );
    }
    Ok(folder)
}
