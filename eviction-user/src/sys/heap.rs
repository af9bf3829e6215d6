//! Memory that was needed once is given back. Reading the kernel's types at the start takes some 30 MiB for a moment; glibc
//! would keep what is left at the end of a thread's heap, and it would be locked for good.

use nix::libc;

/// In bytes; glibc's own value at the start, before it raises it to twice the largest block that was ever freed.
#[cfg(target_env = "gnu")]
const MOST_UNUSED_AT_THE_END: libc::c_int = 128 * 1024;

/// To be called before there is more than one thread: from here on freed memory at the end of a heap goes back.
pub fn stay_small() {
    // SAFETY: sets a parameter; a C library without it returns 0 and changes nothing.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, MOST_UNUSED_AT_THE_END);
    }
}

/// What lies free in between goes back too. To be called when all slow preparation is done.
pub fn give_back() {
    // SAFETY: takes a size only, and leaves alone what is in use. Whether anything was given back changes nothing.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
