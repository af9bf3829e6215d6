//! pidfd calls that nix does not wrap: signals that cannot hit a reused pid, and reaping the memory
//! of a dying process.

use super::clock;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A process that cannot be mistaken for a later one with the same pid (pidfd_open, Linux 5.3).
#[derive(Debug)]
pub struct PidFd(OwnedFd);

impl PidFd {
    pub fn open(pid: i32) -> Result<Self, Errno> {
        // SAFETY: pidfd_open takes two integers and returns a new descriptor or -1.
        let fd = Errno::result(unsafe { nix::libc::syscall(nix::libc::SYS_pidfd_open, pid, 0) })?;
        let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
        // SAFETY: the kernel has just handed this descriptor to us alone.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    pub fn kill(&self) -> Result<(), Errno> {
        self.send(Signal::SIGKILL)
    }

    /// Asks the process to end; it may have other plans.
    pub fn terminate(&self) -> Result<(), Errno> {
        self.send(Signal::SIGTERM)
    }

    fn send(&self, signal: Signal) -> Result<(), Errno> {
        // SAFETY: a valid descriptor, a signal number, no siginfo, no flags.
        let done = unsafe {
            nix::libc::syscall(
                nix::libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                signal as i32,
                std::ptr::null::<nix::libc::siginfo_t>(),
                0,
            )
        };
        Errno::result(done).map(drop)
    }

    /// Blocks until the process has ended; `false`: it still runs after `limit`.
    pub fn ends_within(&self, limit: Duration) -> Result<bool, Errno> {
        let began = clock::now();
        loop {
            let left = limit.saturating_sub(clock::elapsed_since(began));
            // Rounded up: a poll of 0 ms would spin.
            let millis = left.as_millis().saturating_add(1);
            let timeout = PollTimeout::from(u16::try_from(millis).unwrap_or(u16::MAX));
            let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) if left.is_zero() => return Ok(false),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(e) => return Err(e),
            }
        }
    }

    /// Frees the address space of a process that has been killed, from this thread, without waiting
    /// until it runs again (process_mrelease, Linux 5.15). Blocks while it works.
    pub fn release_memory(&self) -> Result<(), Errno> {
        // SAFETY: a valid descriptor and no flags; the kernel refuses processes that are not dying.
        Errno::result(unsafe {
            nix::libc::syscall(nix::libc::SYS_process_mrelease, self.0.as_raw_fd(), 0)
        })
        .map(drop)
    }
}

/// Does this kernel have process_mrelease? Asked with a descriptor that cannot be valid.
pub fn has_process_mrelease() -> bool {
    // SAFETY: integers only; -1 is never a descriptor, so nothing can be released.
    let done = unsafe { nix::libc::syscall(nix::libc::SYS_process_mrelease, -1, 0) };
    Errno::result(done) != Err(Errno::ENOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn kills_the_process_it_was_opened_for() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pidfd = PidFd::open(i32::try_from(child.id()).unwrap()).unwrap();
        pidfd.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(nix::libc::SIGKILL));
        assert_eq!(
            pidfd.kill(),
            Err(Errno::ESRCH),
            "a dead process stays dead, whoever has its pid now"
        );
    }

    #[test]
    fn memory_of_a_living_process_is_never_released() {
        if !has_process_mrelease() {
            println!("skipped: this kernel has no process_mrelease (5.15)");
            return;
        }
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pidfd = PidFd::open(i32::try_from(child.id()).unwrap()).unwrap();
        assert_eq!(pidfd.release_memory(), Err(Errno::EINVAL));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
