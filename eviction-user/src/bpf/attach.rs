//! From the plan to running programs. Whatever fails is written down and the next rung is taken: this never fails as a
//! whole, it may only end up with nothing attached.

mod device;
mod memory;
mod suspend;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use aya::{
    Ebpf, EbpfError, EbpfLoader,
    maps::{Array, HashMap, Map, MapData, MapError, PerCpuArray, RingBuf},
    programs::ProgramType,
    sys::{BpfHelper, is_helper_supported},
};
use eviction_ebpf::abi::{FORKS_SLOT, Growth, GrowthKey, Kind, Loss, Run, Rung, Stall, names};
use eviction_ebpf::credit::NodeLag;
use nix::{
    errno::Errno,
    unistd::{SysconfVar, sysconf},
};

use super::{
    bundle,
    climb::{climb, excluded},
    counting::{Counting, Cpus},
    facts::{Facts, Hierarchy},
    family::Family,
    faults::FaultSampling,
    hooks::{Hooks, Link, Place},
    log::{LogError, LogReader},
    object::OBJECT,
    observed::{CgroupFeed, Observed},
    offsets::VMLINUX_BTF,
    plan::Plan,
    report::{Report, chain},
    ring::{DropCounts, Drops, Events, RingError},
    slots::{ShareError, SlotHandle, SlotMap, share},
};

pub use suspend::SuspendError;

#[derive(Clone, Debug)]
pub struct AttachOptions {
    /// Only these families: a hook that nobody needs is not to cost anything. `None`: all.
    pub families: Option<Vec<Family>>,
    /// Only these rungs, for tests that want a certain one.
    pub allow: Option<Vec<Rung>>,
    /// Let the programs speak; [`Attached::log_reader`] then has a reader.
    pub bpf_log: bool,
    /// How many counters of growth there is room for, for tests that want them to run out.
    pub growth_room: Option<u32>,
    /// The running kernel's BTF, for fentry.
    pub btf: PathBuf,
    /// Let the programs stay silent while the real counter shows room; off to measure what that spares.
    pub compare: bool,
}

impl Default for AttachOptions {
    fn default() -> Self {
        Self {
            families: None,
            allow: None,
            bpf_log: false,
            growth_room: None,
            btf: VMLINUX_BTF.into(),
            compare: true,
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum SetUpError {
    #[error("the eBPF object cannot be loaded")]
    Load(#[from] EbpfError),
    #[error("the object has no map {0}")]
    NoMap(&'static str),
    #[error("map {name} cannot be used")]
    Map {
        name: &'static str,
        source: MapError,
    },
    #[error("the slots cannot be mapped")]
    Mmap(#[from] Errno),
    #[error(transparent)]
    Share(#[from] ShareError),
    #[error(transparent)]
    Log(#[from] LogError),
}

#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    #[error("no hook for {0} is attached")]
    NoHook(Family),
    #[error("all slots for {0} are taken")]
    Full(Family),
    #[error(transparent)]
    Share(#[from] ShareError),
}

/// The programs, for as long as this lives.
pub struct Attached {
    report: Report,
    live: Option<Live>,
}

struct Live {
    slots: Arc<SlotMap>,
    claims: MapData,
    growth: HashMap<MapData, GrowthKey, Growth>,
    growth_runs: PerCpuArray<MapData, Run>,
    /// Counters of growth that were dropped with their device.
    growth_dropped: u64,
    drops: Drops,
    observed: Observed,
    rings: Option<(RingBuf<MapData>, RingBuf<MapData>)>,
    log: Option<LogReader>,
    faults: Option<Arc<FaultSampling>>,
    cpus: Cpus,
    node_lag: NodeLag,
    compares: bool,
    /// Of all but perf events.
    links: Vec<Link>,
    /// Where they were before they were suspended.
    suspended: Vec<Place>,
    /// Programs and links; last, so that they go after what reads their maps.
    ebpf: Ebpf,
}

impl Attached {
    /// With `bpf_log`, must be called within a tokio runtime with I/O.
    pub fn attach(facts: &Facts, plan: &Plan, options: &AttachOptions) -> Self {
        let mut report = Report::default();
        for family in Family::ALL {
            report.of_mut(family).excluded = excluded(plan.ladder(family));
        }
        if plan.is_hopeless() {
            return Self { report, live: None };
        }
        match Live::set_up(facts, plan, options, &mut report) {
            Ok(live) => Self {
                report,
                live: Some(live),
            },
            Err(error) => {
                report.object = Some(chain(&error));
                for family in Family::ALL {
                    report.of_mut(family).attached.clear();
                }
                Self { report, live: None }
            }
        }
    }

    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The slot for the tasks of the whole node.
    pub fn forks_slot(&mut self) -> Result<SlotHandle, SlotError> {
        let attached = self.report.of(Family::Pids).is_attached();
        let Some(live) = self.live.as_ref().filter(|_| attached) else {
            return Err(SlotError::NoHook(Family::Pids));
        };
        let slot = live
            .slots
            .take(FORKS_SLOT..FORKS_SLOT + 1, Kind::Forks, 0, 0)
            .ok_or(SlotError::Full(Family::Pids))?;
        live.handle(slot, live.one_by_one())
    }

    /// The events; once. Must be called within a tokio runtime with I/O.
    pub fn take_events(&mut self) -> Result<Events, RingError> {
        match self.live.as_mut().and_then(|live| live.rings.take()) {
            Some((memory, files)) => Events::new(memory, files),
            None => Ok(Events::never()),
        }
    }

    /// The programs' log, if it was asked for; once.
    pub fn log_reader(&mut self) -> Option<LogReader> {
        self.live.as_mut()?.log.take()
    }

    pub fn drops(&self) -> Result<DropCounts, MapError> {
        self.live
            .as_ref()
            .map_or(Ok(DropCounts::default()), |live| live.drops.read())
    }

    /// How many counters of growth were begun; those that [`Self::growth`] no longer has were forgotten for others' sake.
    pub fn growth_begun(&self) -> Result<u64, MapError> {
        let live = self.live.as_ref();
        live.map_or(Ok(0), |live| live.observed.count(Loss::GrowthBegun))
    }

    /// Time that each cgroup's tasks spent in direct reclaim since the start, by its id.
    pub fn stalls(&self) -> impl Iterator<Item = (u64, Stall)> {
        self.live.iter().flat_map(|live| live.observed.stalls())
    }

    /// What the kernel tells of its cgroups, if it does; once.
    pub fn take_cgroups(&mut self) -> Option<CgroupFeed> {
        let rungs = &self.report.of(Family::Observations).attached;
        let told = rungs.contains(&Rung::TraceCgroups);
        self.live.as_mut().filter(|_| told)?.observed.cgroups.take()
    }
}

impl Live {
    fn set_up(
        facts: &Facts,
        plan: &Plan,
        options: &AttachOptions,
        report: &mut Report,
    ) -> Result<Self, SetUpError> {
        let mut ebpf = load(facts, options)?;
        let mut hooks = Hooks::new(&mut ebpf, &options.btf);
        let mut faults = None;
        let wanted = |family: &Family| {
            let families = options.families.as_ref();
            families.is_none_or(|families| families.contains(family))
        };
        let mut left_over = Vec::new();
        for family in Family::ALL.into_iter().filter(wanted) {
            let its_report = report.of_mut(family);
            let events = climb(plan.ladder(family), &mut hooks, facts, options, its_report);
            if !its_report.is_attached() {
                left_over.extend(family.instead().filter(|instead| !wanted(instead)));
            }
            faults = faults.or(events);
        }
        left_over.dedup();
        for family in left_over {
            let its_report = report.of_mut(family);
            climb(plan.ladder(family), &mut hooks, facts, options, its_report);
        }
        let links = hooks.into_links();
        let log = if options.bpf_log {
            Some(LogReader::new(&mut ebpf)?)
        } else {
            None
        };
        let slots = take(&mut ebpf, names::map::SLOTS)?;
        let Map::Array(slots) = slots else {
            return Err(SetUpError::NoMap(names::map::SLOTS));
        };
        let Map::HashMap(claims) = take(&mut ebpf, names::map::CLAIMS)? else {
            return Err(SetUpError::NoMap(names::map::CLAIMS));
        };
        let mut batch: Array<_, u64> = typed(&mut ebpf, names::map::FAULT_BATCH)?;
        batch.set(0, 1, 0).map_err(|source| SetUpError::Map {
            name: names::map::FAULT_BATCH,
            source,
        })?;
        let sampling =
            |events| Arc::new(FaultSampling::new(events, facts.pages_per_fault(), batch));
        let Map::PerCpuArray(lost) = take(&mut ebpf, names::map::LOST)? else {
            return Err(SetUpError::NoMap(names::map::LOST));
        };
        Ok(Self {
            slots: Arc::new(SlotMap::new(&slots)?),
            claims,
            growth: typed(&mut ebpf, names::map::GROWTH)?,
            growth_runs: typed(&mut ebpf, names::map::GROWTH_RUNS)?,
            growth_dropped: 0,
            drops: Drops {
                memory: typed::<PerCpuArray<_, u64>>(&mut ebpf, names::map::MEMORY_DROPS)?,
                files: typed::<PerCpuArray<_, u64>>(&mut ebpf, names::map::FS_DROPS)?,
            },
            observed: Observed {
                counts: shared_counts(&lost)?,
                stalls: typed(&mut ebpf, names::map::RECLAIM_STALLS)?,
                cgroups: Some(CgroupFeed::new(
                    typed(&mut ebpf, names::map::CGROUP_EVENTS)?,
                    shared_counts(&lost)?,
                )),
            },
            rings: Some((
                typed(&mut ebpf, names::map::MEMORY_EVENTS)?,
                typed(&mut ebpf, names::map::FS_EVENTS)?,
            )),
            log,
            faults: faults.map(sampling),
            cpus: Cpus::new(facts.cpus),
            node_lag: facts.node_lag(),
            compares: options.compare,
            links,
            suspended: Vec::new(),
            ebpf,
        })
    }

    fn one_by_one(&self) -> Counting {
        Counting::OneByOne {
            cpus: self.cpus.clone(),
        }
    }

    fn handle(&self, slot: u32, counting: Counting) -> Result<SlotHandle, SlotError> {
        let claims = share(&self.claims)?;
        let claims = HashMap::try_from(Map::HashMap(claims)).map_err(ShareError::Open)?;
        Ok(SlotHandle::new(
            Arc::clone(&self.slots),
            slot,
            counting,
            claims,
        ))
    }
}

fn load(facts: &Facts, options: &AttachOptions) -> Result<Ebpf, EbpfError> {
    let mut globals = facts.offsets.globals(facts.numa.nodes == 1);
    globals.push((names::global::PAGES_PER_FAULT, facts.pages_per_fault()));
    globals.push((
        names::global::MEMORY_ON_V1,
        u32::from(facts.memory_hierarchy == Hierarchy::V1),
    ));
    globals.push((names::global::MEMORY_HIERARCHY, facts.memory_hierarchy_id));
    globals.push((
        names::global::TASK_TYPED,
        u32::from(task_is_typed(facts, options)),
    ));
    globals.push((
        names::global::XFS_DELTA_ARG,
        bundle::xfs_delta_argument(facts),
    ));
    globals.push((names::ABI, eviction_ebpf::abi::ABI.into()));
    let log_level: u8 = if options.bpf_log {
        log::Level::Info as u8
    } else {
        0
    };
    let node_stats = facts.node_stats.unwrap_or(0);
    let mut loader = EbpfLoader::new();
    for (name, value) in &globals {
        loader.override_global(name, value, true);
    }
    loader.override_global(names::global::NODE_STATS, &node_stats, true);
    loader.override_global(names::global::LOG_LEVEL, &log_level, true);
    if let Some(room) = options.growth_room {
        loader.map_max_entries(names::map::GROWTH, room);
    }
    if !options.bpf_log
        && let Ok(Some(page)) = sysconf(SysconfVar::PAGE_SIZE)
    {
        // The map is part of the object; unused, it need not have more than the least a ring can have.
        loader.map_max_entries(names::map::LOGS, page as u32);
    }
    loader.load(OBJECT)
}

/// Whether the programs may follow the current task's members without the helper that reads kernel memory. The verifier goes
/// by the running kernel's own types: what another file tells of them will not do.
fn task_is_typed(facts: &Facts, options: &AttachOptions) -> bool {
    // On cgroup v2 a helper tells the cgroup's id.
    let wanted = facts.memory_hierarchy == Hierarchy::V1;
    let known = facts.offsets.memcg.is_some() && facts.offsets.task.is_some();
    wanted
        && known
        && options.btf == Path::new(VMLINUX_BTF)
        && is_helper_supported(
            ProgramType::RawTracePoint,
            BpfHelper::BPF_FUNC_get_current_task_btf,
        )
        .unwrap_or(false)
}

fn take(ebpf: &mut Ebpf, name: &'static str) -> Result<Map, SetUpError> {
    ebpf.take_map(name).ok_or(SetUpError::NoMap(name))
}

fn typed<T: TryFrom<Map, Error = MapError>>(
    ebpf: &mut Ebpf,
    name: &'static str,
) -> Result<T, SetUpError> {
    take(ebpf, name)?
        .try_into()
        .map_err(|source| SetUpError::Map { name, source })
}

fn shared_counts(map: &MapData) -> Result<PerCpuArray<MapData, u64>, SetUpError> {
    let name = names::map::LOST;
    PerCpuArray::try_from(Map::PerCpuArray(share(map)?))
        .map_err(|source| SetUpError::Map { name, source })
}
