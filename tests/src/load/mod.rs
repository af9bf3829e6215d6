//! Load generators: processes that use up memory, page cache or inodes at a set rate, and tell through a shared
//! page how far they came, also after they were killed.

mod inodes;
mod memory;
mod processes;
mod progress;
mod read;
pub mod worker;
mod write;

pub use inodes::make_inodes;
pub use memory::{hog, hold};
pub use processes::fork_processes;
pub use progress::{Progress, ProgressPage};
pub use read::read_again;
pub use write::write_file;

use nix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in nanoseconds: the clock of eviction's records.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC exists");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

/// Sleeps until `done` units are due at `rate` units a second since `began_ns`.
fn keep_pace(began_ns: u64, done: u64, rate: u64) {
    let due_ns = began_ns + done.saturating_mul(1_000_000_000) / rate.max(1);
    let now = now_ns();
    // Shorter waits cost more than they are worth: the timer slack alone is 50 us.
    if due_ns > now + 200_000 {
        std::thread::sleep(std::time::Duration::from_nanos(due_ns - now));
    }
}
