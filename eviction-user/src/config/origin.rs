//! Where a value came from, remembered for every setting: people ask "who says so?".

use std::fmt;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A default that `mergeDefaultEvictionSettings` added beside what was set.
    MergedDefault,
    File {
        path: Arc<Path>,
        line: u64,
    },
    /// A file of the drop-in directory.
    DropIn {
        path: Arc<Path>,
        line: u64,
    },
    /// With its dashes, as in `--eviction-hard`.
    Flag(&'static str),
    /// The running kubelet's own word.
    Configz,
    /// On the command line of the running kubelet.
    KubeletFlag(&'static str),
}

impl Origin {
    pub fn is_default(&self) -> bool {
        matches!(self, Self::Default | Self::MergedDefault)
    }

    pub fn is_flag(&self) -> bool {
        matches!(self, Self::Flag(_) | Self::KubeletFlag(_))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::MergedDefault => f.write_str("merged default"),
            Self::File { path, line } | Self::DropIn { path, line } => {
                write!(f, "{}:{line}", path.display())
            }
            Self::Configz => f.write_str("the kubelet's /configz"),
            Self::Flag(name) => f.write_str(name),
            Self::KubeletFlag(name) => write!(f, "the kubelet's {name}"),
        }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    pub value: T,
    pub origin: Origin,
}

impl<T> Sourced<T> {
    pub(super) fn default_of(value: T) -> Self {
        Self {
            value,
            origin: Origin::Default,
        }
    }
}
