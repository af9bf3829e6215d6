//! Takes entries from the fast thread and hands them to a printer on another one, so that a full pipe
//! never delays a kill.

use crate::ports::{Entry, Journal};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// More than any burst of one eviction; beyond it entries are dropped and counted.
const CAPACITY: usize = 4096;

#[derive(Debug)]
pub struct ChannelJournal {
    queue: SyncSender<Entry>,
    /// Not told yet.
    dropped: u64,
    /// Since the start.
    dropped_in_all: u64,
}

impl ChannelJournal {
    /// Starts `print` on a thread of its own, which ends when the journal is dropped and all is printed.
    pub fn start(
        print: impl FnOnce(Receiver<Entry>) + Send + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        Self::on_thread("eviction-print", print)
    }

    /// A journal whose entries `see` has first, then this one. `see` runs on a thread of its own: it hears of everything
    /// also while the printer hangs or has ended, and of how many records that cost.
    pub fn seen_by(
        mut self,
        mut see: impl FnMut(&Entry) + Send + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        Self::on_thread("eviction-count", move |entries| {
            for entry in entries {
                see(&entry);
                let before = self.dropped_in_all;
                self.record(entry);
                let count = self.dropped_in_all - before;
                if count > 0 {
                    see(&Entry::RecordsDropped { count });
                }
            }
        })
    }

    fn on_thread(
        name: &str,
        work: impl FnOnce(Receiver<Entry>) + Send + 'static,
    ) -> io::Result<(Self, JoinHandle<()>)> {
        let (queue, entries) = sync_channel(CAPACITY);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || work(entries))?;
        let journal = Self {
            queue,
            dropped: 0,
            dropped_in_all: 0,
        };
        Ok((journal, thread))
    }
}

impl Journal for ChannelJournal {
    fn record(&mut self, entry: Entry) {
        if self.dropped > 0
            && self
                .queue
                .try_send(Entry::RecordsDropped {
                    count: self.dropped,
                })
                .is_ok()
        {
            self.dropped = 0;
        }
        if self.queue.try_send(entry).is_err() {
            self.dropped += 1;
            self.dropped_in_all += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printer_that_hangs_costs_records_but_never_blocks_and_the_loss_is_told() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (told, printed) = std::sync::mpsc::channel();
        let (mut journal, printer) = ChannelJournal::start(move |entries| {
            wait.recv().unwrap();
            entries.iter().for_each(|entry| told.send(entry).unwrap());
        })
        .unwrap();
        for _ in 0..CAPACITY + 10 {
            journal.record(Entry::LookFailed { reason: "x".into() });
        }
        go.send(()).unwrap();
        // Room appears as the printer works; the next record brings the count of the lost ones with it.
        for _ in 0..CAPACITY {
            printed.recv().unwrap();
        }
        journal.record(Entry::LookFailed {
            reason: "last".into(),
        });
        drop(journal);
        printer.join().unwrap();
        let rest: Vec<Entry> = printed.iter().collect();
        assert!(
            matches!(
                rest.as_slice(),
                [
                    Entry::RecordsDropped { count: 10 },
                    Entry::LookFailed { .. }
                ]
            ),
            "{rest:?}"
        );
    }

    #[test]
    fn who_sees_entries_first_hears_of_all_although_the_printer_has_ended() {
        let (journal, printer) = ChannelJournal::start(drop).unwrap();
        printer.join().unwrap();
        let (told, seen) = std::sync::mpsc::channel();
        let see = move |entry: &Entry| told.send(entry.clone()).unwrap();
        let (mut journal, counter) = journal.seen_by(see).unwrap();
        for _ in 0..2 {
            journal.record(Entry::LookFailed { reason: "x".into() });
        }
        drop(journal);
        counter.join().unwrap();
        let seen: Vec<Entry> = seen.iter().collect();
        assert!(
            matches!(
                seen.as_slice(),
                [
                    Entry::LookFailed { .. },
                    Entry::RecordsDropped { count: 1 },
                    Entry::LookFailed { .. },
                    Entry::RecordsDropped { count: 1 },
                ]
            ),
            "{seen:?}"
        );
    }
}
