//! What the user gave, checked once: raw texts become settings, or an error that names the flag and
//! the fix.

mod host;

pub use host::{ConfigError, HostConfig, HostFlags};
