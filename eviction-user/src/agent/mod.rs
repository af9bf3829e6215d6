//! The loop: look, decide, act. Kernel events only say "look now"; what happens is decided by the
//! policy engine on a fresh reading.

mod fast_thread;
mod layered;
mod lines;
mod oom;
mod pace;
mod run;
#[cfg(test)]
mod stories;
mod timer_only;

pub use fast_thread::{Privileges, start};
pub use layered::Layered;
pub use lines::Lines;
pub use pace::Pace;
pub use run::{Agent, Settings};
pub use timer_only::TimerOnly;
