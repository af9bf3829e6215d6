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
pub(super) enum Figure {
    /// A cgroup's usage, less what its `memory.stat` shows under that key.
    Group {
        usage: File,
        stat: File,
        inactive: &'static str,
    },
    /// The node on cgroup v2, by its own counters in `/proc/meminfo`. The root's `memory.stat` is the same sum, but up to two
    /// seconds old (`FLUSH_TIME` of the kernel's mm/memcontrol.c, 5.15 and later).
    Node(File),
}

impl Figure {
    pub(super) fn of(line: Line, tree: &TestTree) -> Result<Self> {
        let open = |path: PathBuf| {
            File::open(&path).with_context(|| format!("opening {}", path.display()))
        };
        let group = match (line, tree.is_v2()) {
            (Line::Node, true) => return Ok(Self::Node(open("/proc/meminfo".into())?)),
            (Line::Node, false) => PathBuf::from(TestTree::hierarchy()),
            (Line::Group, _) => tree.root(),
        };
        let (usage, inactive) = if tree.is_v2() {
            ("memory.current", "\ninactive_file ")
        } else {
            ("memory.usage_in_bytes", "\ntotal_inactive_file ")
        };
        Ok(Self::Group {
            usage: open(group.join(usage))?,
            stat: open(group.join("memory.stat"))?,
            inactive,
        })
    }

    pub(super) fn read(&self) -> Result<u64> {
        let (used, inactive) = match self {
            Self::Group {
                usage,
                stat,
                inactive,
            } => {
                let used = content(usage)?.trim().parse()?;
                (used, value(&content(stat)?, inactive)?)
            }
            Self::Node(meminfo) => {
                let meminfo = content(meminfo)?;
                let bytes = |key: &str| Ok(value(&meminfo, key)? * 1024);
                let parts = ["\nAnonPages:", "\nCached:", "\nSwapCached:", "\nBuffers:"];
                let used = parts.map(bytes).into_iter().sum::<Result<u64>>()?;
                (used, bytes("\nInactive(file):")?)
            }
        };
        Ok(used.saturating_sub(inactive))
    }
}

/// The number behind `key`.
fn value(content: &str, key: &str) -> Result<u64> {
    let rest = content.split_once(key).map(|(_, rest)| rest);
    let number = rest.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    number.with_context(|| format!("nothing there about {key:?}"))
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
