//! The helper's side: joins its cgroups, then one task after the other until nobody asks any more.

use super::memory::{Memory, breathe, cross};
use super::{Answer, Crossing, Task, loops};
use crate::bench::cpus;
use crate::sys::cgroup::PAGE_SIZE;
use crate::sys::clock;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// What the memory has room for beside what a crossing tells.
const SLACK: u64 = 64 << 20;

pub fn serve(cgroups: &[PathBuf]) -> io::Result<()> {
    for cgroup in cgroups {
        std::fs::write(cgroup.join("cgroup.procs"), "0")?;
    }
    let mut memory = None;
    for line in io::stdin().lines() {
        let answer = match serde_json::from_str(&line?) {
            Ok(task) => {
                carry_out(task, &mut memory).unwrap_or_else(|e| Answer::Failed(e.to_string()))
            }
            Err(e) => Answer::Failed(e.to_string()),
        };
        let mut line = serde_json::to_vec(&answer)?;
        line.push(b'\n');
        io::stdout().write_all(&line)?;
    }
    Ok(())
}

fn carry_out(task: Task, memory: &mut Option<Memory>) -> io::Result<Answer> {
    match task {
        Task::Rest => memory
            .as_mut()
            .map_or(Ok(()), Memory::release)
            .map(|()| Answer::Done),
        Task::Cross(crossing) => Ok(Answer::At(cross(room_for(&crossing, memory)?, &crossing)?)),
        Task::Pin { cpu } => cpus::pin_to(cpu).map(|()| Answer::Done),
        Task::Wake { eventfd } => wake(eventfd).map(Answer::At),
        Task::Loop(what) => loops::run(&what).map(Answer::Took),
        Task::Spin => loop {
            std::hint::spin_loop();
        },
        Task::Storm(what) => loop {
            loops::run(&what)?;
        },
        Task::Breathe { bytes_a_second } => match breathe(bytes_a_second)? {},
    }
}

fn room_for<'a>(crossing: &Crossing, memory: &'a mut Option<Memory>) -> io::Result<&'a mut Memory> {
    let bytes = crossing.line + crossing.past_pages * PAGE_SIZE + SLACK;
    if let Some(fits) = memory.take().filter(|memory| memory.holds(bytes)) {
        return Ok(memory.insert(fits));
    }
    Ok(memory.insert(Memory::map(bytes)?))
}
fn wake(eventfd: i32) -> io::Result<i64> {
    // SAFETY: whoever gives this task has left the descriptor open for us.
    let eventfd = unsafe { BorrowedFd::borrow_raw(eventfd) };
    let at = clock::now().as_nanos();
    nix::unistd::write(eventfd, &1_u64.to_ne_bytes())?;
    Ok(at)
}
