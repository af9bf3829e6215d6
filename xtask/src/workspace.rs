//! Where things are: the source tree, the build's output, the cache of tools and kernels.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The only target whose static glibc build is tested.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Pinned: it has to fit the aya versions in the lock file.
pub const BPF_LINKER: &str = "0.13.0";

#[derive(Clone, Debug)]
pub struct Workspace {
    root: PathBuf,
    cache: PathBuf,
}

impl Workspace {
    /// The tree this program was built from, and the cache of `EVICTION_CACHE` or `~/.cache/eviction`.
    pub fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask lies in a workspace")?
            .to_owned();
        let cache = match std::env::var_os("EVICTION_CACHE").filter(|value| !value.is_empty()) {
            Some(given) => std::path::absolute(PathBuf::from(given))
                .context("EVICTION_CACHE is not a usable path")?,
            None => {
                let home = std::env::var_os("HOME").filter(|value| !value.is_empty());
                let home = home.context("neither EVICTION_CACHE nor HOME is set: set EVICTION_CACHE to a folder for tools and kernels")?;
                PathBuf::from(home).join(".cache/eviction")
            }
        };
        Ok(Self { root, cache })
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    #[must_use]
    pub fn cache(&self) -> &Path {
        &self.cache
    }

    /// Cargo's output folder.
    #[must_use]
    pub fn target(&self) -> PathBuf {
        std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| self.root.join("target"), |given| self.root.join(given))
    }

    /// Root of the `cargo install` that holds bpf-linker; the program is in its `bin`.
    #[must_use]
    pub fn linker_root(&self) -> PathBuf {
        self.cache
            .join("tools")
            .join(format!("bpf-linker-{BPF_LINKER}"))
    }

    #[must_use]
    pub fn kernels(&self) -> PathBuf {
        self.cache.join("kernels")
    }

    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.cache.join("logs").join(format!("{name}.log"))
    }
}
