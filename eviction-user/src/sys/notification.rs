//! What the kernel itself wakes a process with when memory gets short, without eBPF. Each is a descriptor that becomes
//! ready; none says more than "look now".

use super::cgroup::{CgroupDir, CgroupError};
use super::reader::ReadError;
use nix::libc;
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The node's PSI file.
pub const NODE_PRESSURE: &str = "/proc/pressure/memory";

/// Stall and window in microseconds. `psi_trigger_create()` takes windows from 500 ms to 10 s; from 6.5 on, without
/// CAP_SYS_RESOURCE, only multiples of 2 s.
const TRIGGERS: [&str; 2] = ["some 5000 500000", "some 20000 2000000"];

#[derive(Debug, thiserror::Error)]
pub enum NotificationError {
    #[error("{path} takes no trigger: {source}{}", hint(.source))]
    Trigger { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("an eventfd cannot be made: {0}")]
    EventFd(#[source] io::Error),
    #[error("the event loop does not take {what}: {source}")]
    Register {
        what: &'static str,
        source: io::Error,
    },
}

/// With `psi=0` the files are not there, or are there and answer EOPNOTSUPP (user case 72).
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOENT) => ": boot with psi=1 to have it",
        Some(libc::EPERM | libc::EACCES) => ": grant CAP_SYS_RESOURCE, or run as root",
        _ => "",
    }
}

/// One of them, waiting.
#[derive(Debug)]
pub struct Notification(AsyncFd<Ready>);

#[derive(Debug)]
enum Ready {
    /// PSI: some task waited for memory for that share of a window.
    Stall(File),
    /// cgroup v2 `memory.events`: the group met a limit of its own, or was short of memory.
    Events(File),
    /// cgroup v1: the usage passed a line, in either direction.
    Usage(EventFd),
}

impl AsRawFd for Ready {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl AsFd for Ready {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Stall(file) | Self::Events(file) => file.as_fd(),
            Self::Usage(event) => event.as_fd(),
        }
    }
}

impl Notification {
    /// A trigger in a PSI file: `/proc/pressure/memory`, or a cgroup's `memory.pressure`.
    pub fn stall(path: &Path) -> Result<Self, NotificationError> {
        let trigger = TRIGGERS.into_iter().map(|text| trigger(path, text));
        // The second form is the one that needs no privilege; what it fails with is the reason to tell.
        let file = trigger
            .reduce(|first, second| first.or(second))
            .unwrap_or_else(|| Err(io::ErrorKind::InvalidInput.into()));
        let file = file.map_err(|source| NotificationError::Trigger {
            path: path.to_owned(),
            source,
        })?;
        Self::register("PSI", Ready::Stall(file), Interest::PRIORITY)
    }

    /// `memory.events` of a cgroup v2.
    pub fn events(group: &CgroupDir) -> Result<Self, NotificationError> {
        let mut file = group.reader("memory.events")?.into_file();
        read_again(&mut file).map_err(|source| ReadError::Io {
            path: group.path().join("memory.events"),
            source,
        })?;
        Self::register("memory.events", Ready::Events(file), Interest::PRIORITY)
    }

    /// cgroup v1: wakes when the usage crosses `bytes`, which the kernel checks once every 128 pages that a CPU charges or
    /// gives back (`memcg_check_events()`, up to 6.18). Dropping it takes the registration back.
    pub fn usage(group: &CgroupDir, bytes: u64) -> Result<Self, NotificationError> {
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|error| NotificationError::EventFd(error.into()))?;
        let counter = group.reader("memory.usage_in_bytes")?.into_file();
        let request = format!(
            "{} {} {bytes}",
            event.as_fd().as_raw_fd(),
            counter.as_raw_fd()
        );
        group.write("cgroup.event_control", &request)?;
        Self::register("an eventfd", Ready::Usage(event), Interest::READABLE)
    }

    fn register(
        what: &'static str,
        ready: Ready,
        interest: Interest,
    ) -> Result<Self, NotificationError> {
        // SAFETY: `Ready` owns its descriptor for its whole life and has no way to exchange it.
        let registered = unsafe { AsyncFd::register_with_interest(ready, interest) };
        registered
            .map(Self)
            .map_err(|error| NotificationError::Register {
                what,
                source: error.into(),
            })
    }

    /// Waits until it speaks. Dropping the future loses nothing. An error means that it will not speak any more, as when its
    /// cgroup is gone.
    pub async fn spoken(&mut self) -> io::Result<()> {
        let interest = match self.0.get_ref() {
            Ready::Usage(_) => Interest::READABLE,
            Ready::Stall(_) | Ready::Events(_) => Interest::PRIORITY,
        };
        let mut guard = self.0.ready_mut(interest).await?;
        // First taken back, then read: what comes in between signals anew.
        guard.clear_ready();
        match guard.get_inner_mut() {
            Ready::Stall(_) => Ok(()),
            Ready::Events(file) => read_again(file),
            Ready::Usage(event) => match event.read() {
                Ok(_) | Err(nix::errno::Errno::EAGAIN) => Ok(()),
                Err(error) => Err(error.into()),
            },
        }
    }
}

fn trigger(path: &Path, text: &str) -> io::Result<File> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    // Its terminating zero is part of what `psi_write()` expects.
    file.write_all(format!("{text}\0").as_bytes())?;
    Ok(file)
}

/// A kernfs file signals until it is read (`kernfs_generic_poll()`).
fn read_again(file: &mut File) -> io::Result<()> {
    file.rewind()?;
    io::copy(&mut file.take(4096), &mut io::sink()).map(drop)
}
