//! What the evictor under test says about its looks, and whether it has anything left to do.

use super::verdict::Seen;
use crate::scenario::{Evictor, Programs, wait_until};
use anyhow::{Context, Result};
use std::time::Duration;

/// A guest under emulation on a busy machine is slow, but not that slow.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Looks {
    evictor: Evictor,
    signal: &'static str,
    taken: usize,
}

impl Looks {
    /// Starts an evictor that decides but kills nothing, and waits until its lines are armed.
    pub(super) fn start(
        programs: &Programs,
        args: &[String],
        signal: &'static str,
    ) -> Result<Self> {
        let mut all = vec!["--dry-run".to_owned(), "--looks".to_owned()];
        all.extend_from_slice(args);
        let mut evictor = Evictor::start(programs, &all)?;
        evictor.wait_for("started", PATIENCE)?;
        Ok(Self {
            evictor,
            signal,
            taken: 0,
        })
    }

    /// Where memory events come from.
    pub(super) fn source(&self) -> String {
        let started = self.evictor.of_kind("started").next();
        started.map_or(String::new(), |record| record.text("memory").to_owned())
    }

    pub(super) fn pid(&self) -> u32 {
        self.evictor.pid()
    }

    /// Looks since the last call. Waits until every thread of the evictor sleeps: what an event has set off is then done, however
    /// slow the machine is.
    pub(super) fn settle(&mut self) -> Result<Vec<Seen>> {
        let settled = wait_until(PATIENCE, || self.evictor.is_asleep().then_some(()));
        settled.context("the evictor does not come to rest")?;
        self.evictor.drain();
        Ok(self.fresh())
    }

    /// Waits for a look that began after `since_ns`.
    pub(super) fn after(&mut self, since_ns: u64) -> Result<Seen> {
        let found = wait_until(PATIENCE, || {
            self.evictor.drain();
            self.fresh()
                .into_iter()
                .find(|look| look.began_ns > since_ns)
        });
        found.context("the evictor looks no more")
    }

    fn fresh(&mut self) -> Vec<Seen> {
        let new = &self.evictor.seen[self.taken..];
        let looks = new.iter().filter(|record| record.kind() == "look");
        let seen = looks
            .filter_map(|record| {
                Some(Seen {
                    began_ns: record.t_ns(),
                    left: record.0.get("left")?.get(self.signal)?.as_i64()?,
                    source: record.text("source").to_owned(),
                })
            })
            .collect();
        self.taken = self.evictor.seen.len();
        seen
    }
}
