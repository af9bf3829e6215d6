//! What the user gave, checked once: files and flags become settings, or an error that names file, line
//! or flag, and the key.
//!
//! From a text to settings: `yaml` (a tree with lines) -> `format` (which kind of file) -> `layer` (what
//! this source sets, read with `section`) -> `files`, `flags` (layers over each other) -> `effective`
//! (over the defaults) -> `check`.

mod additions;
mod check;
mod effective;
mod error;
mod files;
mod flags;
mod format;
mod fs_paths;
mod host;
mod keys;
mod kubelet;
mod kubelet_server;
mod layer;
mod origin;
mod pairing;
mod pods;
mod reclaim;
mod section;
#[cfg(test)]
mod tests;
mod warning;
mod write;
mod yaml;

pub use additions::AdditionSettings;
pub use effective::{Effective, Row};
pub use error::{ConfigError, DocumentFault, SettingFault};
pub use flags::EvictionFlags;
pub use format::Format;
pub use fs_paths::FsPaths;
pub use host::{HostConfig, HostError, HostFlags};
pub use kubelet::{KubeletSettings, PodsLayout};
pub use kubelet_server::server_of;
pub use origin::{Origin, Sourced};
pub use pairing::{Line, MEMORY_GAP, Pair, pairs};
pub use reclaim::ReclaimError;
pub use section::SignalMap;
pub use warning::{Warning, WarningKind};
pub use write::WriteError;
