//! Makes the calling thread stand back: on the processor, where it still gets a little when all are busy, and on the disk.

use nix::errno::Errno;
use nix::libc;

/// `IOPRIO_WHO_PROCESS` and `IOPRIO_CLASS_IDLE` of linux/ioprio.h, which libc does not have.
const WHO_PROCESS: libc::c_int = 1;
const CLASS_IDLE: libc::c_int = 3;
const CLASS_SHIFT: libc::c_int = 13;

/// A tenth of what others get. Not SCHED_IDLE, which gets next to nothing beside two busy processes: whoever fills the disk
/// of a busy node would not be known in time.
const NICENESS: libc::c_int = 10;

/// Lowers the calling thread's share of the processor, and puts it into the idle class of disk schedulers. Needs no
/// privilege; what the kernel refuses leaves the thread an ordinary one.
pub fn schedule_last() -> Result<(), Errno> {
    // SAFETY: takes integers only; process 0 is the calling thread (Linux keeps the niceness by thread).
    let processor = unsafe {
        let as_it_is = libc::getpriority(libc::PRIO_PROCESS, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, as_it_is.max(NICENESS))
    };
    // SAFETY: takes integers only; 0 is the calling thread.
    let disk = unsafe {
        libc::syscall(
            libc::SYS_ioprio_set,
            WHO_PROCESS,
            0,
            CLASS_IDLE << CLASS_SHIFT,
        )
    };
    Errno::result(processor)?;
    Errno::result(disk).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_that_asked_stands_back_and_no_other() {
        let niceness = || {
            // SAFETY: takes integers only; 0 is the calling thread.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        };
        let before = niceness();
        let background = std::thread::spawn(move || {
            schedule_last().unwrap();
            // SAFETY: takes integers only; 0 is the calling thread.
            let disk = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
            (niceness(), disk >> CLASS_SHIFT)
        });
        let expected = (before.max(NICENESS), libc::c_long::from(CLASS_IDLE));
        assert_eq!(background.join().unwrap(), expected);
        assert_eq!(niceness(), before);
    }
}
