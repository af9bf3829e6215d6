//! pidfd calls that nix does not wrap: signals that cannot hit a reused pid, and reaping the memory
//! of a dying process.

use nix::errno::Errno;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
        // SAFETY: a valid descriptor, a signal number, no siginfo, no flags.
        let done = unsafe {
            nix::libc::syscall(
                nix::libc::SYS_pidfd_send_signal,
                self.0.as_raw_fd(),
                nix::libc::SIGKILL,
                std::ptr::null::<nix::libc::siginfo_t>(),
                0,
            )
        };
        Errno::result(done).map(drop)
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
