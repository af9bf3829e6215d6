//! What is to be seen on a host: the node, the watched cgroup, its child cgroups as workloads.

use super::guard_figures::GuardFigures;
use super::own::Untouchable;
use super::{DirectoryScan, WorkloadSpec};
use crate::model::{
    ContainerStats, FsLayout, FsStats, MemoryStats, ObservedPod, Pod, PodStats, Protection,
    Snapshot, Summary, SystemContainer, Timestamp, Uid,
};
use crate::ports::{Growth, Inventory, Look, LookError};
use crate::sys::cgroup::{
    CgroupDir, GroupMemoryReader, Hierarchy, oom_counts, protected_memory, subtree,
};
use crate::sys::clock;
use crate::sys::filesystem::{FileSystem, FileSystemUse};
use crate::sys::node_memory::NodeMemoryReader;
use crate::sys::reader::ReadError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub struct HostInventory {
    root: CgroupDir,
    hierarchy: Hierarchy,
    specs: BTreeMap<String, WorkloadSpec>,
    untouchable: Untouchable,
    node: NodeMemoryReader,
    group: GroupMemoryReader,
    nodefs: Option<FileSystem>,
    guards: GuardFigures,
    scan: Option<DirectoryScan>,
    members: Vec<Member>,
    look: Look,
}

/// A child cgroup of the root.
struct Member {
    group: CgroupDir,
    memory: Option<GroupMemoryReader>,
    pod: Arc<Pod>,
    /// Ids of all cgroups that have been seen below it: inode counts outlive the cgroups that made them.
    ids: BTreeSet<u64>,
}

impl HostInventory {
    pub fn open(
        root: CgroupDir,
        hierarchy: Hierarchy,
        specs: Vec<WorkloadSpec>,
        nodefs: Option<FileSystem>,
        scan: Option<DirectoryScan>,
    ) -> Result<Self, ReadError> {
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
            untouchable: Untouchable::find(&hierarchy),
            guards: GuardFigures::open(&hierarchy),
            specs: specs
                .into_iter()
                .map(|spec| (spec.name.clone(), spec))
                .collect(),
            look: Look {
                taken: Timestamp::from_nanos(0),
                summary,
                group_usage: 0,
            },
            members: Vec::new(),
            root,
            hierarchy,
            nodefs,
            scan,
        })
    }

    /// Follows cgroups that came and went.
    fn refresh(&mut self) {
        let mut before: BTreeMap<u64, Member> =
            self.members.drain(..).map(|m| (m.group.id(), m)).collect();
        self.members = self
            .root
            .children()
            .into_iter()
            .map(|group| {
                before
                    .remove(&group.id())
                    .unwrap_or_else(|| self.member(group))
            })
            .collect();
    }

    fn member(&self, group: CgroupDir) -> Member {
        let name = group.name();
        let spec = self.specs.get(&name);
        let request = spec
            .and_then(|s| s.request)
            .unwrap_or_else(|| protected_memory(&group, self.hierarchy.version));
        // The id makes the workload another one when its cgroup is removed and made again.
        let uid = Uid::new(group.id().to_string());
        let mut pod = Pod::workload(
            uid,
            name.clone(),
            i64::try_from(request).unwrap_or(i64::MAX),
        );
        pod.priority = spec.map(|s| s.priority);
        pod.protection = if self.untouchable.is_in(group.path()) {
            Some(Protection::OwnPod)
        } else {
            spec.filter(|s| s.protect)
                .map(|s| Protection::Configured(format!("--workload {}:protect", s.name)))
        };
        // Without the memory controller in the parent's subtree_control there is no figure: no stats then.
        let memory = GroupMemoryReader::open(&group, self.hierarchy.version).ok();
        Member {
            group,
            memory,
            pod: Arc::new(pod),
            ids: BTreeSet::new(),
        }
    }
}

impl Inventory for HostInventory {
    fn look(&mut self) -> Result<&Look, LookError> {
        let now = clock::now();
        let node = self.node.read().map_err(failed)?;
        let group = self.group.read().map_err(failed)?;
        self.look.taken = now;
        self.look.group_usage = group.usage;
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
        if let Some(nodefs) = &self.nodefs {
            self.look.summary.nodefs = Some(fs_stats(now, &nodefs.read().map_err(failed)?));
        }
        Ok(&self.look)
    }

    fn oom_counts(&mut self) -> BTreeMap<u64, u64> {
        oom_counts(&self.root, &self.hierarchy)
    }

    fn snapshot(&mut self, growth: &Growth) -> Snapshot {
        let made = growth.inodes_by_cgroup();
        self.refresh();
        let scanned = self.scan.as_ref().map(DirectoryScan::counts);
        let inodes_are_counted = !made.is_empty() || scanned.is_some();
        let pods = self
            .members
            .iter_mut()
            .map(|member| {
                let inodes = inodes_are_counted.then(|| {
                    let found = scanned
                        .as_ref()
                        .and_then(|s| s.get(&member.pod.name))
                        .copied()
                        .unwrap_or(0);
                    member.inodes_made(&made).max(found)
                });
                ObservedPod {
                    pod: Arc::clone(&member.pod),
                    stats: member.stats(inodes),
                }
            })
            .collect();
        let mut summary = self.look.summary.clone();
        self.guards.read_into(&mut summary);
        Snapshot {
            taken: self.look.taken,
            summary,
            pods,
            // One file system: a host has no runtime that keeps images elsewhere.
            layout: Some(FsLayout::default()),
        }
    }
}

impl Member {
    /// What the kernel counted for this cgroup and all that were ever seen below it.
    fn inodes_made(&mut self, made: &BTreeMap<u64, i64>) -> u64 {
        let now: BTreeSet<u64> = subtree(&self.group).iter().map(CgroupDir::id).collect();
        self.ids.retain(|id| made.contains_key(id));
        self.ids.extend(now);
        let net: i64 = self.ids.iter().filter_map(|id| made.get(id)).sum();
        u64::try_from(net).unwrap_or(0)
    }

    fn stats(&self, inodes: Option<u64>) -> Option<PodStats> {
        // A cgroup that has just been removed has nothing to give back: it must not rank first as a
        // pod without stats would, so its use is nought.
        let memory = self.memory.as_ref()?.read().ok();
        let working_set = memory.map_or(0, |m| m.working_set());
        let rootfs = FsStats {
            inodes_used: inodes,
            ..FsStats::default()
        };
        Some(PodStats {
            memory: Some(MemoryStats {
                time: Some(clock::now()),
                available: None,
                usage: memory.map(|m| m.usage),
                working_set: Some(working_set),
            }),
            containers: vec![ContainerStats {
                name: self.pod.name.clone(),
                rootfs: Some(rootfs),
                ..ContainerStats::default()
            }],
            ..PodStats::default()
        })
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LookError {
    LookError(Box::new(error))
}

fn fs_stats(now: Timestamp, read: &FileSystemUse) -> FsStats {
    // A file system that makes inodes as needed reports 0 of 0: no signal rather than pressure for ever.
    let fixed_table = read.inodes > 0;
    FsStats {
        time: Some(now),
        available: Some(read.available_bytes),
        capacity: Some(read.capacity_bytes),
        used: None,
        inodes_free: fixed_table.then_some(read.inodes_free),
        inodes: fixed_table.then_some(read.inodes),
        inodes_used: fixed_table.then(|| read.inodes - read.inodes_free),
    }
}
