//! The true figure, from the kernel's own files: read as fast as it goes, on a thread of its own, while something happens.

use super::Line;
use crate::load::now_ns;
use crate::scenario::TestTree;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Memory that counts as used: without inactive file pages. Its files stay open.
#[derive(Debug)]
pub(super) struct Figure {
    /// `None`: the root of cgroup v2, which has no usage file; anon and file pages then.
    usage: Option<File>,
    stat: File,
    inactive: &'static str,
}

impl Figure {
    pub(super) fn of(line: Line, tree: &TestTree) -> Result<Self> {
        let group = match line {
            Line::Node => PathBuf::from(TestTree::hierarchy()),
            Line::Group => tree.root(),
        };
        let open = |file: &str| {
            let path = group.join(file);
            File::open(&path).with_context(|| format!("opening {}", path.display()))
        };
        let usage = match (tree.is_v2(), line) {
            (true, Line::Node) => None,
            (true, Line::Group) => Some("memory.current"),
            (false, _) => Some("memory.usage_in_bytes"),
        };
        Ok(Self {
            usage: usage.map(open).transpose()?,
            stat: open("memory.stat")?,
            inactive: if tree.is_v2() {
                "\ninactive_file "
            } else {
                "\ntotal_inactive_file "
            },
        })
    }

    pub(super) fn read(&self) -> Result<u64> {
        let usage = self.usage.as_ref().map(content).transpose()?;
        let stat = content(&self.stat)?;
        let value = |key: &str| {
            let rest = stat.split_once(key).map(|(_, rest)| rest);
            let number = rest.and_then(|rest| rest.split_once('\n')?.0.parse::<u64>().ok());
            number.with_context(|| format!("memory.stat has no{key:?}"))
        };
        let used = match usage {
            Some(usage) => usage.trim().parse()?,
            // Anon comes first.
            None => value("anon ")? + value("\nfile ")?,
        };
        Ok(used.saturating_sub(value(self.inactive)?))
    }
}

/// A kernel file from its beginning.
fn content(mut file: &File) -> Result<String> {
    let mut text = String::with_capacity(4096);
    file.rewind()?;
    file.read_to_string(&mut text)?;
    Ok(text)
}

pub(super) fn number(path: &Path) -> Result<u64> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.trim().parse()?)
}

/// A reading, and when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) began_ns: u64,
    pub(super) used: u64,
}

pub(super) struct Oracle {
    samples: Arc<Mutex<Vec<Sample>>>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

/// What its thread is told.
enum Order {
    Read,
    Rest,
}

impl Oracle {
    pub(super) fn start(figure: Figure) -> Self {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let (orders, told) = channel();
        let into = Arc::clone(&samples);
        let thread = std::thread::spawn(move || {
            // Ends when nobody gives orders any more.
            while let Ok(order) = told.recv() {
                if matches!(order, Order::Rest) {
                    continue;
                }
                while matches!(told.try_recv(), Err(TryRecvError::Empty)) {
                    let Ok(sample) = Sample::take(&figure) else {
                        return;
                    };
                    lock(&into).push(sample);
                }
            }
        });
        Self {
            samples,
            orders,
            thread: Some(thread),
        }
    }

    /// Reads as fast as it goes while `step` is taken.
    pub(super) fn watch<T>(&self, step: impl FnOnce() -> T) -> T {
        // The thread is gone only when its files are, and then the driver's own reading fails.
        let _ = self.orders.send(Order::Read);
        let done = step();
        let _ = self.orders.send(Order::Rest);
        done
    }

    /// What was read since the last call.
    pub(super) fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut *lock(&self.samples))
    }
}

fn lock(samples: &Mutex<Vec<Sample>>) -> MutexGuard<'_, Vec<Sample>> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sample {
    pub(super) fn take(figure: &Figure) -> Result<Self> {
        let began_ns = now_ns();
        let used = figure.read()?;
        Ok(Self { began_ns, used })
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Without a sender its thread ends.
        let (closed, _) = channel();
        self.orders = closed;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
