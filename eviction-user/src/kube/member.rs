//! A pod's cgroup, with those of its containers.

use super::PodCgroup;
use super::known::KnownPod;
use crate::host::{DiskUses, Held, Reading, as_container, kill};
use crate::model::{ContainerStats, MemoryStats, ObservedPod, Pod, PodStats, Protection, Uid};
use crate::sys::cgroup::{CgroupDir, GroupUseReader, Version, subtree};
use crate::sys::clock;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct Member {
    /// In the cgroup's name.
    pub(super) uid: Uid,
    group: CgroupDir,
    version: Version,
    /// `None` without the memory controller.
    memory: Option<GroupUseReader>,
    children: Vec<Child>,
    held: Held,
    is_ours: bool,
}

/// A container's cgroup, the sandbox's, or what else a runtime makes there.
struct Child {
    group: CgroupDir,
    container: Option<String>,
    memory: Option<GroupUseReader>,
}

impl Child {
    fn new(group: CgroupDir, version: Version) -> Self {
        let path = group.path().to_str();
        Self {
            container: path.and_then(PodCgroup::of).and_then(|c| c.container),
            memory: GroupUseReader::open(&group, version).ok(),
            group,
        }
    }
}

/// Of all cgroups that are there, the pod's own first.
fn ids(group: &CgroupDir, children: &[Child]) -> impl Iterator<Item = u64> {
    let below = children.iter().flat_map(|child| subtree(&child.group));
    std::iter::once(group.id()).chain(below.map(|group| group.id()))
}

/// No cgroup answers once it has been removed.
fn is_gone(group: &CgroupDir, memory: Option<&GroupUseReader>) -> bool {
    match memory {
        Some(memory) => memory.usage().is_err_and(|error| error.means_gone()),
        None => !group.exists(),
    }
}

impl Member {
    pub(super) fn new(uid: Uid, group: CgroupDir, version: Version, is_ours: bool) -> Self {
        Self {
            uid,
            memory: GroupUseReader::open(&group, version).ok(),
            group,
            version,
            children: Vec::new(),
            held: Held::default(),
            is_ours,
        }
    }

    /// The ids of all that are there, its own first.
    pub(super) fn cgroups(&mut self) -> Vec<u64> {
        self.follow_children();
        ids(&self.group, &self.children).collect()
    }

    pub(super) fn is_gone(&self) -> bool {
        is_gone(&self.group, self.memory.as_ref())
    }

    /// `known`: what the API says of it. `None`: it is gone.
    pub(super) fn observe(
        &mut self,
        reading: Reading,
        uses: &DiskUses,
        known: Option<&KnownPod>,
    ) -> Option<ObservedPod> {
        if self.is_gone() {
            return None;
        }
        self.follow_children();
        let count = reading.processes || reading.most_processes.is_some();
        let processes = count.then(|| kill::count(&self.group).ok()).flatten();
        let processes = processes.map(|found| found as u64);
        let mut pod = known.map_or_else(
            || Arc::new(Pod::new(self.uid.clone(), "", self.group.name())),
            |known| Arc::clone(&known.pod),
        );
        let protection = self.protection(known, reading.most_processes, processes);
        if protection.is_some() {
            Arc::make_mut(&mut pod).protection = protection;
        }
        Some(ObservedPod {
            pod,
            stats: self.stats(reading, processes, uses, known),
        })
    }

    /// If none has gone and there are as many as before, they are the same: listing them would take longer.
    fn follow_children(&mut self) {
        let are_there =
            |child: &Child| child.memory.is_some() && !is_gone(&child.group, child.memory.as_ref());
        if self.group.child_count() == Some(self.children.len() as u64)
            && self.children.iter().all(are_there)
        {
            return;
        }
        let known = std::mem::take(&mut self.children).into_iter();
        let known = known.filter(|child| child.memory.is_some());
        let mut known: BTreeMap<u64, Child> = known.map(|c| (c.group.id(), c)).collect();
        let children = self.group.children().into_iter();
        self.children = children
            .map(|group| {
                let known = known.remove(&group.id());
                known.unwrap_or_else(|| Child::new(group, self.version))
            })
            .collect();
    }

    fn protection(
        &self,
        known: Option<&KnownPod>,
        most: Option<u64>,
        processes: Option<u64>,
    ) -> Option<Protection> {
        if self.is_ours {
            return Some(Protection::OwnPod);
        }
        if known.is_none() {
            return Some(Protection::Unmapped);
        }
        let (most, found) = most.zip(processes)?;
        (found > most)
            .then(|| Protection::Configured(format!("--max-processes {most}: it has {found}")))
    }

    fn stats(
        &mut self,
        reading: Reading,
        processes: Option<u64>,
        uses: &DiskUses,
        known: Option<&KnownPod>,
    ) -> Option<PodStats> {
        let of_all = memory(self.memory.as_ref()?);
        // Not gone through where no disk is watched.
        let cgroups = ids(&self.group, &self.children);
        let disk = self
            .held
            .on(reading.devices, cgroups, self.uid.as_str(), uses);
        let containers = self.children.iter().filter_map(|child| {
            let id = child.container.as_ref()?;
            Some(ContainerStats {
                name: known?.containers.get(id)?.clone(),
                memory: Some(memory(child.memory.as_ref()?)),
                ..ContainerStats::default()
            })
        });
        // Nobody knows which container it was that wrote to a volume: one without a name stands for the pod.
        let pod = (!disk.is_empty()).then(|| as_container(String::new(), &disk));
        Some(PodStats {
            memory: Some(of_all),
            process_count: processes,
            containers: containers.chain(pod).collect(),
            disk,
            ..PodStats::default()
        })
    }
}

fn memory(reader: &GroupUseReader) -> MemoryStats {
    let read = reader.read().ok();
    MemoryStats {
        time: Some(clock::now()),
        available: None,
        usage: read.map(|memory| memory.usage),
        working_set: Some(read.map_or(0, |memory| memory.working_set())),
    }
}
