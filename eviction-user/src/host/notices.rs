//! Without eBPF: the kernel's own notifications as a [`PressureSource`]. They come late or not at all for some crossings, so
//! they cover no line: the timer goes on, and they wake it earlier.

use crate::model::Signal;
use crate::ports::{
    Coverage, Distance, Growth, Moved, OomVictim, PressureEvent, PressureSource, SilentHook,
};
use crate::sys::cgroup::{CgroupDir, Hierarchy, Version};
use crate::sys::clock;
use crate::sys::notification::{NODE_PRESSURE, Notification, NotificationError};

/// Names for records; those of the hooks are in `eviction_ebpf::abi::Rung`.
const PSI: &str = "psi/memory";
const EVENTS: &str = "memory.events";
const EVENTFD: &str = "memcg-eventfd";

/// A new eventfd is registered only when the line has moved by this part of the distance.
const MOVED: u64 = 8;

/// What can be had here.
#[derive(Debug)]
pub struct Notices {
    node: Line,
    group: Line,
    failed: Vec<(&'static str, NotificationError)>,
}

/// What may speak for one line.
#[derive(Debug, Default)]
struct Line {
    stall: Option<Notification>,
    events: Option<Notification>,
    /// cgroup v1 only.
    counter: Option<CgroupDir>,
    usage: Option<Registered>,
}

#[derive(Debug)]
struct Registered {
    at: u64,
    notification: Notification,
}

impl Notices {
    /// Tries each; must be called within a tokio runtime with I/O. `group` is the watched cgroup.
    pub fn open(hierarchy: &Hierarchy, group: &CgroupDir) -> Self {
        let mut failed = Vec::new();
        let mut keep = |name, tried: Result<Notification, NotificationError>| {
            tried.map_err(|error| failed.push((name, error))).ok()
        };
        let v2 = hierarchy.version == Version::V2;
        let node = Line {
            stall: keep(PSI, Notification::stall(NODE_PRESSURE.as_ref())),
            counter: (!v2)
                .then(|| CgroupDir::open(&hierarchy.mount).ok())
                .flatten(),
            ..Line::default()
        };
        let group = if v2 {
            let pressure = group.path().join("memory.pressure");
            Line {
                stall: keep(PSI, Notification::stall(&pressure)),
                events: keep(EVENTS, Notification::events(group)),
                ..Line::default()
            }
        } else {
            Line {
                counter: Some(group.clone()),
                ..Line::default()
            }
        };
        Self {
            node,
            group,
            failed,
        }
    }

    /// None at all, where hooks speak for every line.
    pub fn none() -> Self {
        Self {
            node: Line::default(),
            group: Line::default(),
            failed: Vec::new(),
        }
    }

    /// What is in use, best first; empty when only the timer is left.
    pub fn names(&self) -> Vec<&'static str> {
        let lines = [&self.node, &self.group];
        let any = |has: fn(&Line) -> bool| lines.iter().any(|line| has(line));
        [
            (EVENTFD, any(|line| line.counter.is_some())),
            (PSI, any(|line| line.stall.is_some())),
            (EVENTS, any(|line| line.events.is_some())),
        ]
        .into_iter()
        .filter_map(|(name, has)| has.then_some(name))
        .collect()
    }

    /// Why the others are not, each with its fix.
    pub fn failures(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.failed
            .iter()
            .map(|(name, error)| (*name, error.to_string()))
    }

    fn line(&mut self, signal: Signal) -> Option<&mut Line> {
        match signal {
            Signal::MemoryAvailable => Some(&mut self.node),
            Signal::AllocatableMemoryAvailable => Some(&mut self.group),
            _ => None,
        }
    }
}

impl Line {
    /// Registers an eventfd for the usage at which the line is crossed if the inactive file pages stay what they are: the
    /// kubelet's own formula. Whether it has been crossed already.
    fn register(&mut self, left: u64) -> Result<bool, NotificationError> {
        let Some(counter) = &self.counter else {
            return Ok(false);
        };
        let usage = counter.number("memory.usage_in_bytes")?;
        let at = usage.saturating_add(left);
        let near = |old: &Registered| old.at.abs_diff(at) <= left / MOVED;
        if self.usage.as_ref().is_none_or(|old| !near(old)) {
            let notification = Notification::usage(counter, at)?;
            self.usage = Some(Registered { at, notification });
        }
        Ok(counter.number("memory.usage_in_bytes")? >= at)
    }

    async fn spoken(&mut self) -> &'static str {
        tokio::select! {
            () = speaks(self.usage.as_mut().map(|usage| &mut usage.notification)) => EVENTFD,
            () = speaks(self.events.as_mut()) => EVENTS,
            () = speaks(self.stall.as_mut()) => PSI,
        }
    }
}

/// Waits for ever when there is none, or when it has nothing more to say.
async fn speaks(notification: Option<&mut Notification>) {
    if let Some(notification) = notification {
        match notification.spoken().await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "a notification has ended"),
        }
    }
    std::future::pending().await
}

fn event(signal: Signal, rung: &'static str, while_arming: bool) -> PressureEvent {
    PressureEvent {
        time: clock::now(),
        signal,
        cgroup: 0,
        amount: 0,
        pid: 0,
        while_arming,
        rung,
    }
}

impl PressureSource for Notices {
    fn mark(&mut self) {}

    fn arm(&mut self, signal: Signal, distance: Distance) -> Option<PressureEvent> {
        let left = u64::try_from(distance.left).unwrap_or(0);
        let line = self.line(signal)?;
        match line.register(left) {
            Ok(crossed) => crossed.then(|| event(signal, EVENTFD, true)),
            Err(error) => {
                tracing::debug!(%error, "no eventfd: the timer looks all the same");
                line.usage = None;
                None
            }
        }
    }

    fn disarm(&mut self, signal: Signal) {
        if let Some(line) = self.line(signal) {
            line.usage = None;
        }
    }

    fn covers(&self, _signal: Signal) -> bool {
        false
    }

    async fn next(&mut self) -> PressureEvent {
        tokio::select! {
            rung = self.node.spoken() => event(Signal::MemoryAvailable, rung, false),
            rung = self.group.spoken() => event(Signal::AllocatableMemoryAvailable, rung, false),
        }
    }

    fn pending(&mut self) -> Option<PressureEvent> {
        None
    }

    fn upkeep(&mut self) {}

    fn follow(&mut self, _moved: &Moved) {}

    fn coverage(&self, signal: Signal) -> Option<Coverage> {
        Some(Coverage::Timer(format!(
            "{signal}: no hooks are in use, and the kernel notifies of memory only"
        )))
    }

    fn growth(&mut self) -> Growth {
        Growth::default()
    }

    fn lost_events(&mut self) -> u64 {
        0
    }

    fn forgotten_counts(&mut self) -> u64 {
        0
    }

    fn silent_hooks(&mut self) -> Vec<SilentHook> {
        Vec::new()
    }

    fn oom_victims(&mut self) -> Vec<OomVictim> {
        Vec::new()
    }
}
