//! The perf software event `page-faults` on every CPU. Opened here and not through aya, because its period is changed while
//! it runs: one sample per 64 faults while the threshold is far, every fault once a batch of huge pages could reach it.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{Mutex, PoisonError},
};

use aya::{
    maps::{Array, MapData},
    programs::ProgramFd,
};
use eviction_ebpf::{
    abi::MEMORY_SLOTS,
    credit::{FAULT_BATCH, InFlight, fault_batch},
};
use nix::errno::Errno;
use perf_event_open_sys::{
    bindings::{
        PERF_COUNT_SW_PAGE_FAULTS, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
    },
    ioctls, perf_event_open,
};

#[derive(Debug, thiserror::Error)]
pub enum FaultError {
    #[error("the list of online CPUs cannot be read")]
    Cpus(#[source] io::Error),
    #[error("perf_event_open of page-faults on CPU {cpu}")]
    Open { cpu: u32, source: Errno },
    #[error("attaching the program to page-faults on CPU {cpu}")]
    Attach { cpu: u32, source: Errno },
    #[error("starting page-faults on CPU {cpu}")]
    Enable { cpu: u32, source: Errno },
}

/// The open events. Dropping them detaches the program.
pub(super) struct FaultEvents {
    fds: Vec<OwnedFd>,
}

impl FaultEvents {
    /// Opens the event on every CPU that is online now, with `program` on it and single faults as the period: until the first
    /// arming tells the distance, it could be any.
    pub(super) fn attach(program: &ProgramFd) -> Result<Self, FaultError> {
        use std::os::fd::AsFd;
        let cpus = aya::util::online_cpus().map_err(|(_, error)| FaultError::Cpus(error))?;
        let program = program.as_fd().as_raw_fd() as u32;
        let fds = cpus
            .into_iter()
            .map(|cpu| open(cpu, program))
            .collect::<Result<_, _>>()?;
        Ok(Self { fds })
    }

    pub(super) fn cpus(&self) -> u32 {
        self.fds.len() as u32
    }

    fn set_period(&self, period: u64) -> Result<(), Errno> {
        for fd in &self.fds {
            // SAFETY: the descriptor is open; despite the binding's type the kernel takes the *address* of the period.
            Errno::result(unsafe { ioctls::PERIOD(fd.as_raw_fd(), &raw const period as u64) })?;
        }
        Ok(())
    }
}

fn open(cpu: u32, program: u32) -> Result<OwnedFd, FaultError> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: PERF_COUNT_SW_PAGE_FAULTS.into(),
        ..perf_event_attr::default()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
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

/// The period in force, which all memory slots share: the nearest threshold decides.
pub(super) struct FaultSampling {
    events: FaultEvents,
    pages_per_fault: u32,
    state: Mutex<State>,
}

struct State {
    batch: u32,
    /// Pages to each slot's threshold.
    distances: [u64; MEMORY_SLOTS as usize],
    /// What the program takes one sample for.
    map: Array<MapData, u64>,
}

/// What an arming has to know of the sampling.
pub(super) struct Sampling {
    pub(super) in_flight: InFlight,
    /// The period has just become shorter: faults since each CPU's last sample were dropped, so the figures that the look read
    /// may miss them.
    pub(super) look_again: bool,
}

impl FaultSampling {
    pub(super) fn new(events: FaultEvents, pages_per_fault: u32, map: Array<MapData, u64>) -> Self {
        let state = State {
            batch: 1,
            distances: [u64::MAX; MEMORY_SLOTS as usize],
            map,
        };
        Self {
            events,
            pages_per_fault,
            state: Mutex::new(state),
        }
    }

    /// Takes note of a slot's distance (`u64::MAX`: disarmed) and adapts the period.
    pub(super) fn settle(&self, slot: u32, distance: u64) -> Sampling {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let before = state.batch;
        if let Some(entry) = state.distances.get_mut(slot as usize) {
            *entry = distance;
        }
        let nearest = state.distances.iter().copied().min().unwrap_or(0);
        let wanted = fault_batch(nearest, self.pages_per_fault, self.events.cpus(), before);
        if wanted != before {
            match self.switch(&mut state, wanted) {
                Ok(()) => state.batch = wanted,
                Err(error) => {
                    tracing::warn!(%error, wanted, "the sample period of page-faults cannot be changed")
                }
            }
        }
        let in_flight = InFlight::faults(state.batch, self.pages_per_fault, self.events.cpus());
        Sampling {
            in_flight,
            look_again: state.batch < before,
        }
    }

    /// At every moment the program must take a sample for at least as many faults as it stands for: the figure grows before
    /// the period does, and shrinks after it.
    fn switch(&self, state: &mut State, wanted: u32) -> Result<(), SwitchError> {
        if wanted == FAULT_BATCH {
            state.map.set(0, u64::from(wanted), 0)?;
            self.events.set_period(wanted.into())?;
        } else {
            self.events.set_period(wanted.into())?;
            state.map.set(0, u64::from(wanted), 0)?;
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
