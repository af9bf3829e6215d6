//! The kernel side over time. What is attached at the start stays to the end; hooks for a kind of file system that appears
//! later are a second object beside it, because a module's layout is known only once it is loaded, and constants of the first
//! object cannot change any more. There is at most one such latecomer: another kind replaces it, and when nothing is left to
//! watch it is detached. Hooks of the first object whose file system went stay attached: without a slot for its device they
//! look up one map and return.

use std::{collections::BTreeMap, io};

use eviction_ebpf::abi::Stall;

use super::{
    Attached, Family, KernelEvents, OpenError, Wanted, WantedDevice,
    attach::AttachOptions,
    attacher::{Attacher, Finished},
    pressure::{of_bytes, with_company},
};
use crate::{
    model::Signal,
    ports::{
        Coverage, Distance, Growth, Moved, OomVictim, PressureEvent, PressureSource, SilentHook,
    },
    sys::{cgroup::GroupMemoryReader, mount::FsKind},
};

#[derive(Debug, thiserror::Error)]
pub enum SidesError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("no thread can be started: {0}")]
    Thread(#[from] io::Error),
}

/// All that is attached, as one source.
pub struct KernelSides {
    first: KernelEvents,
    late: Option<KernelEvents>,
    attacher: Attacher,
    /// Families that are being attached.
    asked: Vec<Family>,
    /// Lines whose file system is not that of the start.
    moved: BTreeMap<Signal, Standing>,
    /// What was lost or forgotten by latecomers that have gone.
    lost: u64,
    forgotten: u64,
}

/// How a line that has moved stands.
enum Standing {
    /// Its hooks are still to be attached.
    Waiting(WantedDevice),
    Watched {
        wanted: WantedDevice,
        hook: &'static str,
    },
    /// Looked at on the timer, and why.
    Timer(String),
}

impl KernelSides {
    /// See [`KernelEvents::open`]. `options`: those that the programs were attached with.
    pub fn open(
        attached: Attached,
        wanted: &Wanted,
        group: Option<GroupMemoryReader>,
        options: AttachOptions,
    ) -> Result<Self, SidesError> {
        Ok(Self {
            first: KernelEvents::open(attached, wanted, group)?,
            late: None,
            attacher: Attacher::start(options)?,
            asked: Vec::new(),
            moved: BTreeMap::new(),
            lost: 0,
            forgotten: 0,
        })
    }

    /// Time that each cgroup's tasks spent in direct reclaim since the start, by its id.
    pub fn stalls(&self) -> impl Iterator<Item = (u64, Stall)> {
        self.first.stalls()
    }

    /// Gives each line that waits a slot where a hook for it is attached; begins to attach the others'.
    fn settle(&mut self) {
        let (first, late) = (&mut self.first, &mut self.late);
        for (signal, standing) in &mut self.moved {
            if let Standing::Waiting(wanted) = standing {
                let sides = [Some(&mut *first), late.as_mut()];
                if let Some(settled) = watched(*signal, wanted, sides.into_iter().flatten()) {
                    *standing = settled;
                }
            }
        }
        if self.attacher.is_busy() {
            return;
        }
        let missing = |standing: &Standing| matches!(standing, Standing::Waiting(_));
        if self.moved.values().any(missing) {
            self.asked = self.late_families();
            if !self.attacher.attach(self.asked.clone()) {
                self.give_up("the thread that attaches hooks has ended");
            }
        } else if self.late.as_ref().is_some_and(KernelEvents::is_idle) {
            self.dismiss();
        }
    }

    /// Families that the object beside the first one must have, those that it has and uses included.
    fn late_families(&self) -> Vec<Family> {
        let of_late = |standing: &Standing| match standing {
            Standing::Waiting(wanted) => Some(wanted.family),
            Standing::Watched { wanted, .. } => {
                let by_first = self.first.attached().sees(wanted.family, &wanted.kind);
                (!by_first).then_some(wanted.family)
            }
            Standing::Timer(_) => None,
        };
        let mut families: Vec<_> = self.moved.values().filter_map(of_late).collect();
        families.sort_unstable();
        families.dedup();
        with_company(families)
    }

    /// Takes in what was attached meanwhile.
    fn take_over(&mut self, attached: Attached) {
        self.dismiss();
        for standing in self.moved.values_mut() {
            if let Standing::Watched { wanted, .. } = standing
                && !self.first.attached().sees(wanted.family, &wanted.kind)
            {
                *standing = Standing::Waiting(wanted.clone());
            }
        }
        let report = attached.report().clone();
        match KernelEvents::open(attached, &Wanted::default(), None) {
            Ok(late) => self.late = Some(late),
            Err(error) => return self.give_up(&error.to_string()),
        }
        let late = self.late.as_mut();
        let mut sides: Vec<_> = [Some(&mut self.first), late]
            .into_iter()
            .flatten()
            .collect();
        for (signal, standing) in &mut self.moved {
            let Standing::Waiting(wanted) = standing else {
                continue;
            };
            match watched(*signal, wanted, sides.iter_mut().map(|side| &mut **side)) {
                Some(settled) => *standing = settled,
                None if self.asked.contains(&wanted.family) => {
                    let why_not = || report.of(wanted.family).why_not();
                    let why = report.object.clone().unwrap_or_else(why_not);
                    *standing = Standing::Timer(no_events(wanted, &why));
                }
                // It moved after that, and is asked for next.
                None => {}
            }
        }
    }

    /// Lets the latecomer go.
    fn dismiss(&mut self) {
        if let Some(mut late) = self.late.take() {
            self.lost += late.lost_events();
            self.forgotten += late.forgotten_counts();
            self.attacher.detach(late.into_attached());
        }
    }

    fn give_up(&mut self, why: &str) {
        for standing in self.moved.values_mut() {
            if let Standing::Waiting(wanted) = standing {
                *standing = Standing::Timer(no_events(wanted, why));
            }
        }
    }
}

/// `None`: none of the sides has the hook.
fn watched<'a>(
    signal: Signal,
    wanted: &WantedDevice,
    sides: impl Iterator<Item = &'a mut KernelEvents>,
) -> Option<Standing> {
    for side in sides {
        match (
            side.watch(wanted),
            side.hook_for(wanted.family, &wanted.kind),
        ) {
            (Ok(true), Some(hook)) => {
                let wanted = wanted.clone();
                return Some(Standing::Watched { wanted, hook });
            }
            (Ok(_), _) => {}
            (Err(error), _) => return Some(Standing::Timer(format!("{signal}: {error}"))),
        }
    }
    None
}

fn no_events(wanted: &WantedDevice, why: &str) -> String {
    let WantedDevice { signal, family, .. } = wanted;
    format!("{signal}: no events for {family} from the kernel ({why})")
}

impl PressureSource for KernelSides {
    fn mark(&mut self) {
        self.first.mark();
        if let Some(late) = &mut self.late {
            late.mark();
        }
    }

    fn arm(&mut self, signal: Signal, distance: Distance) -> Option<PressureEvent> {
        let late = |late: &mut KernelEvents| late.arm(signal, distance);
        let crossed = self.first.arm(signal, distance);
        crossed.or_else(|| self.late.as_mut().and_then(late))
    }

    fn disarm(&mut self, signal: Signal) {
        self.first.disarm(signal);
        if let Some(late) = &mut self.late {
            late.disarm(signal);
        }
    }

    fn covers(&self, signal: Signal) -> bool {
        let late = |late: &KernelEvents| late.covers(signal);
        self.first.covers(signal) || self.late.as_ref().is_some_and(late)
    }

    async fn next(&mut self) -> PressureEvent {
        let late = async {
            match &mut self.late {
                Some(late) => late.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            event = self.first.next() => event,
            event = late => event,
        }
    }

    fn pending(&mut self) -> Option<PressureEvent> {
        let first = self.first.pending();
        first.or_else(|| self.late.as_mut()?.pending())
    }

    fn upkeep(&mut self) {
        self.first.upkeep();
        if let Some(late) = &mut self.late {
            late.upkeep();
        }
        match self.attacher.attached() {
            Some(Finished::Attached(attached)) => self.take_over(*attached),
            Some(Finished::Died) => self.give_up("the thread that attaches hooks has ended"),
            None => return,
        }
        // What moved while that was under way.
        self.settle();
    }

    fn follow(&mut self, moved: &Moved) {
        let kind = moved.to.kind.as_deref().map(FsKind::of);
        for line in &moved.signals {
            self.first.release(line.signal);
            if let Some(late) = &mut self.late {
                late.release(line.signal);
            }
            let wanted = WantedDevice::new(line.signal, moved.to.device, kind.clone());
            let standing = match (&line.unfollowed, wanted) {
                (Some(why), _) => Standing::Timer(why.clone()),
                (None, Ok(wanted)) => Standing::Waiting(wanted),
                (None, Err(doubt)) => Standing::Timer(format!("{}: {doubt}", line.signal)),
            };
            self.moved.insert(line.signal, standing);
        }
        self.settle();
    }

    fn coverage(&self, signal: Signal) -> Option<Coverage> {
        match self.moved.get(&signal)? {
            Standing::Waiting(_) => None,
            Standing::Watched { hook, .. } => Some(Coverage::Hook(hook)),
            Standing::Timer(why) => Some(Coverage::Timer(why.clone())),
        }
    }

    fn growth(&mut self) -> Growth {
        let mut growth = self.first.growth();
        if let Some(late) = &mut self.late {
            // A device is watched by one of the two at a time, and what is not watched is not counted.
            let counted = late.growth();
            growth.inodes.extend(counted.inodes);
            growth.bytes.extend(counted.bytes);
            growth.uncounted_bytes |= counted.uncounted_bytes;
        }
        let on_the_timer = |(signal, standing): (&Signal, &Standing)| {
            matches!(standing, Standing::Timer(_)) && of_bytes(*signal).is_some()
        };
        growth.uncounted_bytes |= self.moved.iter().any(on_the_timer);
        growth
    }

    fn lost_events(&mut self) -> u64 {
        let late = self.late.as_mut().map_or(0, KernelEvents::lost_events);
        self.first.lost_events() + late + self.lost
    }

    fn forgotten_counts(&mut self) -> u64 {
        let late = self.late.as_mut().map_or(0, KernelEvents::forgotten_counts);
        self.first.forgotten_counts() + late + self.forgotten
    }

    fn silent_hooks(&mut self) -> Vec<SilentHook> {
        let mut silent = self.first.silent_hooks();
        silent.extend(self.late.iter_mut().flat_map(KernelEvents::silent_hooks));
        silent
    }

    fn oom_victims(&mut self) -> Vec<OomVictim> {
        let mut victims = self.first.oom_victims();
        victims.extend(self.late.iter_mut().flat_map(KernelEvents::oom_victims));
        victims
    }
}
