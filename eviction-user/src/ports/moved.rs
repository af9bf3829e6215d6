//! File systems that come and go below the paths that are watched.

use crate::model::{FsLayout, Signal};
use std::fmt;
use std::path::PathBuf;

/// A file system, as people tell it from others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FsPlace {
    /// Its type's name; `None`: its mount cannot be told.
    pub kind: Option<String>,
    /// `st_dev`
    pub device: u64,
    /// Its mount point, or a path on it where that cannot be told.
    pub at: PathBuf,
}

impl FsPlace {
    /// Major and minor number.
    pub fn device_name(&self) -> String {
        // As the C library's `makedev` packs them.
        let (device, low) = (self.device, self.device & 0xff);
        let major = ((device >> 32) & 0xffff_f000) | ((device >> 8) & 0xfff);
        format!("{major}:{}", ((device >> 12) & 0xffff_ff00) | low)
    }
}

impl fmt::Display for FsPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.kind.is_some() { "at" } else { "of" };
        let (device, at) = (self.device_name(), self.at.display());
        write!(formatter, "device {device} {word} {at}")
    }
}

/// A watched path leads to another file system than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    pub path: PathBuf,
    pub from: FsPlace,
    pub to: FsPlace,
    pub signals: Vec<MovedSignal>,
    /// How all the watched file systems lie to each other from here on.
    pub layout: FsLayout,
}

/// A signal that is about the file system at that path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovedSignal {
    pub signal: Signal,
    /// Why no hook can follow it there, if so.
    pub unfollowed: Option<String>,
}

/// Who says when to look at a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// The hook of this name.
    Hook(&'static str),
    /// The timer alone, and why.
    Timer(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_is_told_by_device_and_mount() {
        for (major, minor) in [(7, 3), (259, 70_000), (0, 41)] {
            let place = |kind: Option<&str>| FsPlace {
                kind: kind.map(str::to_owned),
                device: nix::sys::stat::makedev(major, minor),
                at: "/mnt".into(),
            };
            let device = format!("device {major}:{minor}");
            assert_eq!(place(Some("ext4")).to_string(), format!("{device} at /mnt"));
            assert_eq!(place(None).to_string(), format!("{device} of /mnt"));
        }
    }
}
