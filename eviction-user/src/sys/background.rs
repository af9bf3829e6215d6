//! Makes the calling thread the one that runs last, on the processor and on the disk.

use nix::errno::Errno;
use nix::libc;

/// `IOPRIO_WHO_PROCESS` and `IOPRIO_CLASS_IDLE` of linux/ioprio.h, which libc does not have.
const WHO_PROCESS: libc::c_int = 1;
const CLASS_IDLE: libc::c_int = 3;
const CLASS_SHIFT: libc::c_int = 13;

/// Puts the calling thread under SCHED_IDLE and into the idle class of disk schedulers. Needs no
/// privilege; what the kernel refuses leaves the thread an ordinary one.
pub fn schedule_last() -> Result<(), Errno> {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: pid 0 is the calling thread, and `param` lives through the call.
    let processor = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const param) };
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
    fn the_thread_that_asked_runs_last_and_no_other() {
        let policy = || {
            // SAFETY: takes an integer only; 0 is the calling thread.
            unsafe { libc::sched_getscheduler(0) }
        };
        let before = policy();
        let background = std::thread::spawn(move || {
            schedule_last().unwrap();
            // SAFETY: takes integers only; 0 is the calling thread.
            let disk = unsafe { libc::syscall(libc::SYS_ioprio_get, WHO_PROCESS, 0) };
            (policy(), disk >> CLASS_SHIFT)
        });
        let expected = (libc::SCHED_IDLE, libc::c_long::from(CLASS_IDLE));
        assert_eq!(background.join().unwrap(), expected);
        assert_eq!(policy(), before);
    }
}
