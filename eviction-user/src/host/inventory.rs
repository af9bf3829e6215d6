//! What is to be seen on a node: its figures, those of the watched cgroup, and the workloads below.

use super::disk_use::DiskUses;
use super::file_systems::{FileSystems, Unread};
use super::following::Following;
use super::guard_figures::{GuardFigures, GuardsAsked};
use super::limits::{LimitPlace, LimitWatch};
use super::member::Reading;
use super::scan::{ScanResult, Scanner};
use crate::model::{MemoryStats, ObservedPod, Snapshot, Summary, SystemContainer, Timestamp};
use crate::ports::{Growth, Inventory, LimitsLook, Look, LookError, Moved};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy, node_oom_kills, oom_counts};
use crate::sys::clock;
use crate::sys::filesystem::FileSystemError;
use crate::sys::mount_table::{MountTable, MountWatch};
use crate::sys::node_memory::NodeMemoryReader;
use crate::sys::node_tasks::NodeTasksReader;
use crate::sys::reader::ReadError;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The ids of cgroups, by workload.
pub type WorkloadCgroups = BTreeMap<String, Vec<u64>>;

/// Finds what may be evicted below the watched cgroup, and reads what each uses.
pub trait Workloads {
    fn observe(&mut self, reading: Reading, uses: &DiskUses) -> Vec<ObservedPod>;

    /// The cgroups of these workloads; asked where workloads have limits of their own.
    fn cgroups(&mut self, _workloads: &BTreeSet<String>) -> WorkloadCgroups {
        WorkloadCgroups::new()
    }
}

/// What is read beside memory.
#[derive(Debug)]
pub struct Watched {
    pub file_systems: FileSystems,
    pub scan: Scan,
    /// Where workloads have limits of their own.
    pub limits: Option<LimitWatch>,
    /// The node's tasks, and each workload's processes.
    pub pids: bool,
    /// A workload with more processes is never a victim.
    pub most_processes: Option<u64>,
    pub guards: GuardsAsked,
}

/// How it is known what lies below the workloads' directories.
#[derive(Debug)]
pub enum Scan {
    /// No directory was named.
    None,
    /// Scanned again and again.
    Background(Scanner),
    /// Scanned once.
    Done(ScanResult),
}

pub struct NodeInventory {
    root: CgroupDir,
    hierarchy: Hierarchy,
    workloads: Box<dyn Workloads + Send>,
    node: NodeMemoryReader,
    group: GroupMemoryReader,
    tasks: Option<NodeTasksReader>,
    file_systems: FileSystems,
    /// `None` where nothing on a disk is watched.
    mounts: Option<MountWatch>,
    following: Following,
    unread: Unread,
    /// Why a path that has moved could not be followed; told once, as long as it says the same.
    unfollowed: Option<FileSystemError>,
    guards: GuardFigures,
    reading: Reading,
    uses: DiskUses,
    limits: Option<LimitWatch>,
    look: Look,
}

impl NodeInventory {
    pub fn open(
        root: CgroupDir,
        hierarchy: Hierarchy,
        workloads: Box<dyn Workloads + Send>,
        mut watched: Watched,
    ) -> Result<Self, ReadError> {
        let mounts = if watched.file_systems.is_empty() {
            None
        } else {
            MountWatch::open().ok()
        };
        // What was mounted before that, and after the file systems were opened.
        if let Ok(table) = MountTable::read() {
            watched.file_systems.check(&table);
        }
        let pods = SystemContainer {
            name: SystemContainer::PODS.to_owned(),
            memory: None,
        };
        let summary = Summary {
            system_containers: vec![pods],
            ..Summary::default()
        };
        Ok(Self {
            node: NodeMemoryReader::open(&hierarchy)?,
            group: GroupMemoryReader::open(&root, hierarchy.version)?,
            guards: GuardFigures::open(&hierarchy, watched.guards),
            workloads,
            look: Look {
                taken: Timestamp::from_nanos(0),
                summary,
                node_excess: 0,
                node_lead: 0,
            },
            root,
            hierarchy,
            tasks: watched.pids.then(NodeTasksReader::open).transpose()?,
            reading: Reading {
                devices: watched.file_systems.devices(),
                processes: watched.pids,
                most_processes: watched.most_processes,
            },
            file_systems: watched.file_systems,
            mounts,
            following: Following::default(),
            unread: Unread::default(),
            unfollowed: None,
            limits: watched.limits,
            uses: match watched.scan {
                Scan::None => DiskUses::new(None),
                Scan::Background(scanner) => DiskUses::new(Some(scanner)),
                Scan::Done(found) => DiskUses::of_scan(found),
            },
        })
    }
}

impl Inventory for NodeInventory {
    fn look(&mut self) -> Result<&Look, LookError> {
        let now = clock::now();
        let node = self.node.read().map_err(failed)?;
        let group = self.group.read().map_err(failed)?;
        self.look.taken = now;
        self.look.node_excess = node.working_set.saturating_sub(node.counted);
        self.look.node_lead = node.counted.saturating_sub(node.working_set);
        self.look.summary.memory = Some(MemoryStats {
            time: Some(now),
            available: Some(node.available()),
            usage: None,
            working_set: Some(node.working_set),
        });
        self.look.summary.reclaimable_cache = Some(node.reclaimable_cache);
        self.look.summary.pods_reclaimable_cache = Some(group.reclaimable_cache);
        self.look.summary.swap_free = Some(node.swap_free);
        if let Some(pods) = self.look.summary.system_containers.first_mut() {
            pods.memory = Some(MemoryStats {
                time: Some(now),
                available: group
                    .limit
                    .map(|limit| limit.saturating_sub(group.working_set())),
                usage: Some(group.usage),
                working_set: Some(group.working_set()),
            });
        }
        if let Some(tasks) = &self.tasks {
            self.look.summary.rlimit = Some(tasks.read().map_err(failed)?);
        }
        let mounts = self.mounts.as_ref();
        if mounts.is_some_and(MountWatch::has_changed)
            && let Ok(table) = MountTable::read()
        {
            self.file_systems.check(&table);
        }
        self.unread = self.file_systems.read(&mut self.look.summary);
        if !self.unread.moved {
            self.unfollowed = None;
        }
        Ok(&self.look)
    }

    fn node_oom_kills(&mut self) -> Option<u64> {
        node_oom_kills()
    }

    fn follow(&mut self) -> Vec<Moved> {
        if !self.unread.moved {
            // A path may lead back to what it led to before the other one was opened: that opening is of no use next time.
            self.following = Following::default();
            return Vec::new();
        }
        let (moved, failed) = self.following.follow(&mut self.file_systems);
        self.unfollowed = failed;
        if !moved.is_empty() {
            self.reading.devices = self.file_systems.devices();
            // What lies below the workloads' directories is on another disk now.
            self.uses.scan_anew();
        }
        moved
    }

    fn follow_in(&self) -> Option<Duration> {
        let has_failed = self.unfollowed.is_some();
        let waits = self.unread.moved;
        waits.then(|| self.following.due_in(has_failed))
    }

    fn unread(&self) -> Option<String> {
        let error = self.unread.error.as_ref().or(self.unfollowed.as_ref());
        error.map(ToString::to_string)
    }

    fn oom_counts(&mut self) -> BTreeMap<u64, u64> {
        oom_counts(&self.root, &self.hierarchy)
    }

    fn wants_growth(&self) -> bool {
        self.uses.wants_round()
    }

    fn take_growth(&mut self, growth: &Growth) {
        self.uses.update(growth);
    }

    fn limits_due(&self) -> Option<Duration> {
        self.limits.as_ref().map(LimitWatch::due_in)
    }

    fn check_limits(&mut self, growth: &Growth) -> LimitsLook {
        let Some(limits) = &mut self.limits else {
            return LimitsLook::default();
        };
        let workloads = &mut self.workloads;
        limits.check(
            growth,
            LimitPlace {
                layout: self.file_systems.layout(),
                devices: self.reading.devices,
                cgroups: &mut |limited| workloads.cgroups(limited),
            },
        )
    }

    fn snapshot(&mut self, growth: &Growth) -> Snapshot {
        self.uses.update(growth);
        let mut pods = self.workloads.observe(self.reading, &self.uses);
        if let Some(limits) = &self.limits {
            pods.iter_mut().for_each(|pod| limits.tell(pod));
        }
        let mut summary = self.look.summary.clone();
        self.guards.read_into(&mut summary);
        Snapshot {
            taken: self.look.taken,
            summary,
            pods,
            layout: Some(self.file_systems.layout()),
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LookError {
    LookError(Box::new(error))
}
