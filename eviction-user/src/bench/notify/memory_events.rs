//! cgroup v2 has no notification for a usage. What comes nearest: the line as `memory.high`, and `memory.events`, which
//! tells when that was exceeded.

use super::listener::{Ears, wait_for};
use crate::bench::BenchError;
use crate::sys::cgroup::{CgroupDir, parse};
use crate::sys::{clock, realtime};
use nix::poll::PollFlags;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

pub(super) fn start(ears: Ears, group: CgroupDir, fifo: bool) -> Result<(), BenchError> {
    let prepare = move || {
        if fifo {
            realtime::schedule_first()?;
        }
        Ok("memory.high")
    };
    ears.listen_on_thread(prepare, move |line, armed| {
        let events = Events::open(&group)?;
        let before = events.exceeded()?;
        group.write("memory.high", &line.to_string())?;
        armed();
        let mut heard = None;
        while heard.is_none() && wait_for(events.file.as_fd(), PollFlags::POLLPRI)? {
            let at = clock::now();
            // Reading makes it quiet again; other events come this way too.
            heard = (events.exceeded()? > before).then_some(at);
        }
        // Or it would be throttled from here on.
        group.write("memory.high", "max")?;
        Ok(heard.into_iter().collect())
    })
}

struct Events {
    file: File,
    group: CgroupDir,
}

impl Events {
    fn open(group: &CgroupDir) -> Result<Self, BenchError> {
        let failed = |source| BenchError::File {
            what: "open",
            path: group.path().join("memory.events"),
            source,
        };
        Ok(Self {
            file: File::open(group.path().join("memory.events")).map_err(failed)?,
            group: group.clone(),
        })
    }

    /// How often the line was exceeded.
    fn exceeded(&self) -> Result<u64, BenchError> {
        let mut text = [0; 512];
        let read = self.file.read_at(&mut text, 0);
        let count = read.and_then(|length| {
            parse::flat_keyed(&text[..length], "high")
                .ok_or_else(|| io::ErrorKind::InvalidData.into())
        });
        count.map_err(|source| BenchError::File {
            what: "read",
            path: self.group.path().join("memory.events"),
            source,
        })
    }
}
