//! The floor: a SCHED_FIFO thread on another CPU woken through an eventfd, with nothing in between.

use super::listener::{Ears, wait_for};
use crate::bench::{BenchError, cpus};
use crate::sys::{clock, realtime};
use nix::poll::PollFlags;
use nix::sys::eventfd::EventFd;
use std::os::fd::AsFd;
use std::sync::Arc;

pub(super) fn start(ears: Ears, event: Arc<EventFd>, cpu: usize) -> Result<(), BenchError> {
    let prepare = move || {
        cpus::pin_to(cpu).map_err(BenchError::system("pin a thread to a CPU"))?;
        realtime::schedule_first()?;
        Ok("eventfd")
    };
    ears.listen_on_thread(prepare, move |_line, armed| {
        armed();
        let heard = wait_for(event.as_fd(), PollFlags::POLLIN)?;
        let at = clock::now();
        if heard {
            event
                .read()
                .map_err(|e| BenchError::system("read an eventfd")(e.into()))?;
        }
        Ok(heard.then_some(at).into_iter().collect())
    })
}
