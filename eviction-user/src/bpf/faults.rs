//! The perf software event `page-faults` on every CPU. Opened here and not through aya, because its period is changed while
//! it runs: one sample per 1024 faults while the threshold is far, every fault once a batch of huge pages could reach it. CPUs
//! that come online are followed.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd},
    path::Path,
    sync::{Mutex, PoisonError},
};

use aya::{
    maps::{Array, MapData},
    programs::ProgramFd,
};
use eviction_ebpf::{
    abi::MEMORY_SLOTS,
    credit::{InFlight, NodeLag, fault_batch},
};
use nix::errno::Errno;
use perf_event_open_sys::{
    bindings::{
        PERF_COUNT_SW_PAGE_FAULTS, PERF_FLAG_FD_CLOEXEC, PERF_FORMAT_TOTAL_TIME_ENABLED,
        PERF_TYPE_SOFTWARE, perf_event_attr,
    },
    ioctls, perf_event_open,
};

use super::counting::Settled;
use crate::sys::reader::Reader;

#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error("the list of online CPUs cannot be read")]
    Cpus(#[source] io::Error),
    #[error("the program's descriptor cannot be duplicated")]
    Program(#[source] io::Error),
    #[error("perf_event_open of page-faults on CPU {cpu}")]
    Open { cpu: u32, source: Errno },
    #[error("attaching the program to page-faults on CPU {cpu}")]
    Attach { cpu: u32, source: Errno },
    #[error("switching page-faults on or off on CPU {cpu}")]
    Enable { cpu: u32, source: Errno },
}

/// The open events, by CPU. Dropping them detaches the program.
pub(super) struct FaultEvents {
    program: OwnedFd,
    open: BTreeMap<u32, Open>,
}

struct Open {
    fd: OwnedFd,
    /// How long it had been enabled when it was asked last.
    enabled_ns: u64,
}

impl Open {
    /// The kernel takes a CPU's events off it when the CPU goes (`perf_event_exit_cpu()`) and does not bring them back: then
    /// the time stands still.
    fn is_alive(&mut self) -> bool {
        let mut value_and_time = [0; 16];
        let read = nix::unistd::read(&self.fd, &mut value_and_time);
        let [.., a, b, c, d, e, f, g, h] = value_and_time;
        let now = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
        let before = std::mem::replace(&mut self.enabled_ns, now);
        read == Ok(value_and_time.len()) && now > before
    }
}

impl FaultEvents {
    /// Opens the event on every CPU that is online now, with `program` on it and single faults as the period: until the first
    /// arming tells the distance, it could be any.
    pub(super) fn attach(program: &ProgramFd) -> Result<Self, FaultError> {
        let mut events = Self {
            program: program
                .as_fd()
                .try_clone_to_owned()
                .map_err(FaultError::Program)?,
            open: BTreeMap::new(),
        };
        let online = online()?;
        events.follow(&online, 1)?;
        Ok(events)
    }

    /// CPUs on which it is open.
    pub(super) fn places(&self) -> usize {
        self.open.len()
    }

    fn cpus(&self) -> u32 {
        self.open.len() as u32
    }

    /// Opens what is missing and closes what is gone.
    fn follow(&mut self, online: &[u32], period: u64) -> Result<(), FaultError> {
        self.open
            .retain(|cpu, event| online.contains(cpu) && event.is_alive());
        for &cpu in online {
            if let Entry::Vacant(place) = self.open.entry(cpu) {
                let fd = open(cpu, self.program.as_raw_fd() as u32, period)?;
                place.insert(Open { fd, enabled_ns: 0 });
            }
        }
        Ok(())
    }

    fn enable(&self, enabled: bool) -> Result<(), FaultError> {
        for (&cpu, Open { fd, .. }) in &self.open {
            let switch = if enabled {
                ioctls::ENABLE
            } else {
                ioctls::DISABLE
            };
            // SAFETY: the descriptor is open.
            Errno::result(unsafe { switch(fd.as_raw_fd(), 0) })
                .map_err(|source| FaultError::Enable { cpu, source })?;
        }
        Ok(())
    }

    fn set_period(&self, period: u64) -> Result<(), Errno> {
        for Open { fd, .. } in self.open.values() {
            // SAFETY: the descriptor is open; despite the binding's type the kernel takes the *address* of the period.
            Errno::result(unsafe { ioctls::PERIOD(fd.as_raw_fd(), &raw const period as u64) })?;
        }
        Ok(())
    }
}

pub(super) fn online() -> Result<Vec<u32>, FaultError> {
    aya::util::online_cpus().map_err(|(_, error)| FaultError::Cpus(error))
}

fn open(cpu: u32, program: u32, period: u64) -> Result<OwnedFd, FaultError> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_PAGE_FAULTS.into(),
        ..perf_event_attr::default()
    };
    attributes.__bindgen_anon_1.sample_period = period;
    attributes.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED.into();
    attributes.set_disabled(1);
    // SAFETY: the attributes are initialised; every process (-1) on one CPU, no group.
    let fd = unsafe {
        perf_event_open(
            &raw mut attributes,
            -1,
            cpu as i32,
            -1,
            PERF_FLAG_FD_CLOEXEC.into(),
        )
    };
    let fd = Errno::result(fd).map_err(|source| FaultError::Open { cpu, source })?;
    // SAFETY: a fresh descriptor that nobody else owns.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: both descriptors are open.
    Errno::result(unsafe { ioctls::SET_BPF(fd.as_raw_fd(), program) })
        .map_err(|source| FaultError::Attach { cpu, source })?;
    // SAFETY: the descriptor is open.
    Errno::result(unsafe { ioctls::ENABLE(fd.as_raw_fd(), 0) })
        .map_err(|source| FaultError::Enable { cpu, source })?;
    Ok(fd)
}

/// The CPUs that are online, by a file that is asked at every heartbeat and next to never says anything new.
struct OnlineCpus {
    file: Option<Reader>,
    said: Vec<u8>,
    cpus: Vec<u32>,
}

impl OnlineCpus {
    fn new() -> Self {
        Self {
            // Without it the list is read anew each time.
            file: Reader::open(Path::new("/sys/devices/system/cpu/online")).ok(),
            said: Vec::new(),
            cpus: Vec::new(),
        }
    }

    fn now(&mut self) -> Result<&[u32], FaultError> {
        let says = self
            .file
            .as_ref()
            .and_then(|file| file.read("", |text| Some(text.to_vec())).ok());
        let known = says.as_ref() == Some(&self.said);
        if !known || self.cpus.is_empty() {
            self.cpus = online()?;
            self.said = says.unwrap_or_default();
        }
        Ok(&self.cpus)
    }
}

/// The period in force, which all memory slots share: the nearest threshold decides.
pub(super) struct FaultSampling {
    /// What comes with one fault at most: its own pages, and one that entered the page cache without a fault (those are
    /// booked in batches of the same length).
    pages_per_fault: u32,
    state: Mutex<State>,
}

struct State {
    events: FaultEvents,
    online: OnlineCpus,
    batch: u32,
    /// Of each slot.
    lines: [SlotLine; MEMORY_SLOTS as usize],
    /// What the program takes one sample for.
    map: Array<MapData, u64>,
}

#[derive(Clone, Copy)]
struct SlotLine {
    /// Pages to the threshold; `u64::MAX`: disarmed.
    distance: u64,
    compared: bool,
}

impl SlotLine {
    const DISARMED: Self = Self {
        distance: u64::MAX,
        compared: true,
    };
}

impl FaultSampling {
    pub(super) fn new(events: FaultEvents, pages_per_fault: u32, map: Array<MapData, u64>) -> Self {
        let state = State {
            events,
            online: OnlineCpus::new(),
            batch: 1,
            lines: [SlotLine::DISARMED; MEMORY_SLOTS as usize],
            map,
        };
        Self {
            pages_per_fault: pages_per_fault.saturating_add(1),
            state: Mutex::new(state),
        }
    }

    /// Takes note of a slot's distance (`u64::MAX`: disarmed) and adapts the period. To look again is asked for when the period
    /// becomes shorter: faults since each CPU's last sample are dropped then, and the figures that the look read may miss them.
    pub(super) fn settle(
        &self,
        slot: u32,
        distance: u64,
        compared: bool,
        node: Option<NodeLag>,
    ) -> Settled {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = state.lines.get_mut(slot as usize) {
            *line = SlotLine { distance, compared };
        }
        let (before, cpus) = (state.batch, state.events.cpus());
        let batches = state.lines.iter().map(|line| {
            fault_batch(
                line.distance,
                self.pages_per_fault,
                cpus,
                before,
                line.compared,
            )
        });
        let wanted = batches.min().unwrap_or(1);
        if wanted != before {
            match state.switch(wanted) {
                Ok(()) => state.batch = wanted,
                Err(error) => {
                    tracing::warn!(%error, wanted, "the sample period of page-faults cannot be changed")
                }
            }
        }
        let in_flight = match node {
            Some(lag) => InFlight::node_faults(state.batch, self.pages_per_fault, cpus, lag),
            None => InFlight::faults(state.batch, self.pages_per_fault, cpus),
        };
        Settled {
            in_flight,
            margin: in_flight.ahead(distance),
            look_again: state.batch < before,
        }
    }

    /// Switches the events on or off where they are open.
    pub(super) fn enable(&self, enabled: bool) -> Result<(), FaultError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.events.enable(enabled)
    }

    /// Follows CPUs that came or went; how many there are. Until this is called, faults on a new one are not seen: the look
    /// that follows finds what they brought in.
    pub(super) fn follow_cpus(&self) -> Result<u32, FaultError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State {
            events,
            online,
            batch,
            ..
        } = &mut *state;
        events.follow(online.now()?, (*batch).into())?;
        Ok(events.cpus())
    }
}

impl State {
    /// At every moment the program must take a sample for at least as many faults as it stands for: the figure grows before
    /// the period does, and shrinks after it.
    fn switch(&mut self, wanted: u32) -> Result<(), SwitchError> {
        if wanted > self.batch {
            self.map.set(0, u64::from(wanted), 0)?;
            self.events.set_period(wanted.into())?;
        } else {
            self.events.set_period(wanted.into())?;
            self.map.set(0, u64::from(wanted), 0)?;
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
enum SwitchError {
    #[error("PERF_EVENT_IOC_PERIOD: {0}")]
    Period(#[from] Errno),
    #[error(transparent)]
    Map(#[from] aya::maps::MapError),
}
