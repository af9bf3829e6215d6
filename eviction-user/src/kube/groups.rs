//! The workloads of a Kubernetes node: pods, each found by its cgroup and told by the API.

use super::PodCgroup;
use super::known::{KnownPod, Listed};
use crate::host::{DiskUses, Held, Reading, Untouchable, Workloads, as_container, kill};
use crate::model::{ContainerStats, MemoryStats, ObservedPod, Pod, PodStats, Protection, Uid};
use crate::sys::cgroup::{CgroupDir, GroupMemoryReader, Hierarchy, Version};
use crate::sys::clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// The cgroups of pods below the one that holds them all, each with the uid in its name.
fn pod_groups(root: &CgroupDir) -> Vec<(String, CgroupDir)> {
    let mut found = Vec::new();
    for group in root.children() {
        match uid(&group) {
            Some(uid) => found.push((uid, group)),
            // A class of service.
            None => {
                let pods = group.children().into_iter();
                found.extend(pods.filter_map(|pod| Some((uid(&pod)?, pod))));
            }
        }
    }
    found
}

fn uid(group: &CgroupDir) -> Option<String> {
    let pod = PodCgroup::of(group.path().to_str()?)?;
    pod.container.is_none().then_some(pod.uid)
}

pub struct PodGroups {
    root: CgroupDir,
    hierarchy: Hierarchy,
    listed: watch::Receiver<Arc<Listed>>,
    untouchable: Untouchable,
    members: BTreeMap<u64, Member>,
}

struct Member {
    uid: String,
    group: CgroupDir,
    /// `None` without the memory controller.
    memory: Option<GroupMemoryReader>,
    containers: BTreeMap<String, GroupMemoryReader>,
    held: Held,
    is_ours: bool,
}

impl PodGroups {
    pub(super) fn new(
        root: CgroupDir,
        hierarchy: Hierarchy,
        listed: watch::Receiver<Arc<Listed>>,
    ) -> Self {
        Self {
            root,
            untouchable: Untouchable::find(&hierarchy),
            hierarchy,
            listed,
            members: BTreeMap::new(),
        }
    }

    /// Follows cgroups that came and went.
    fn refresh(&mut self) {
        let mut before = std::mem::take(&mut self.members);
        for (uid, group) in pod_groups(&self.root) {
            let id = group.id();
            let member = before
                .remove(&id)
                .unwrap_or_else(|| self.member(uid, group));
            self.members.insert(id, member);
        }
    }

    fn member(&self, uid: String, group: CgroupDir) -> Member {
        Member {
            uid,
            memory: GroupMemoryReader::open(&group, self.hierarchy.version).ok(),
            is_ours: self.untouchable.is_in(group.path()),
            containers: BTreeMap::new(),
            held: Held::default(),
            group,
        }
    }
}

impl Workloads for PodGroups {
    fn observe(&mut self, reading: Reading, uses: &DiskUses) -> Vec<ObservedPod> {
        self.refresh();
        let listed = Arc::clone(&self.listed.borrow());
        let version = self.hierarchy.version;
        let members = self.members.values_mut();
        members
            .filter_map(|member| {
                let known = listed.get(&member.uid);
                // On its way out already, by whoever's word.
                if known.is_some_and(|known| known.has_ended) {
                    return None;
                }
                member.follow_containers(version);
                Some(member.observe(reading, uses, known))
            })
            .collect()
    }
}

impl Member {
    fn follow_containers(&mut self, version: Version) {
        let mut before = std::mem::take(&mut self.containers);
        for group in self.group.children() {
            let Some(id) = group
                .path()
                .to_str()
                .and_then(PodCgroup::of)
                .and_then(|c| c.container)
            else {
                continue;
            };
            let reader = before
                .remove(&id)
                .or_else(|| GroupMemoryReader::open(&group, version).ok());
            self.containers.extend(reader.map(|reader| (id, reader)));
        }
    }

    fn observe(
        &mut self,
        reading: Reading,
        uses: &DiskUses,
        known: Option<&Arc<KnownPod>>,
    ) -> ObservedPod {
        let count = reading.processes || reading.most_processes.is_some();
        let processes = count.then(|| kill::count(&self.group).ok()).flatten();
        let processes = processes.map(|found| found as u64);
        let mut pod = known.map_or_else(
            || Arc::new(Pod::new(Uid::new(self.uid.as_str()), "", self.group.name())),
            |known| Arc::clone(&known.pod),
        );
        let protection = self.protection(known, reading.most_processes, processes);
        if protection.is_some() {
            Arc::make_mut(&mut pod).protection = protection;
        }
        ObservedPod {
            pod,
            stats: self.stats(reading, processes, uses, known),
        }
    }

    fn protection(
        &self,
        known: Option<&Arc<KnownPod>>,
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

    /// A cgroup that has just been removed has nothing to give back: it must not rank first as a pod without stats would.
    fn stats(
        &mut self,
        reading: Reading,
        processes: Option<u64>,
        uses: &DiskUses,
        known: Option<&Arc<KnownPod>>,
    ) -> Option<PodStats> {
        let memory_of_all = memory(self.memory.as_ref()?);
        let disk = self.held.on(reading.devices, &self.group, &self.uid, uses);
        let containers = self.containers.iter().filter_map(|(id, reader)| {
            Some(ContainerStats {
                name: known?.containers.get(id)?.clone(),
                memory: Some(memory(reader)),
                ..ContainerStats::default()
            })
        });
        // Nobody knows which container it was that wrote to a volume: one without a name stands for the pod.
        let pod = (!disk.is_empty()).then(|| as_container(String::new(), &disk));
        Some(PodStats {
            memory: Some(memory_of_all),
            process_count: processes,
            containers: containers.chain(pod).collect(),
            disk,
            ..PodStats::default()
        })
    }
}

fn memory(reader: &GroupMemoryReader) -> MemoryStats {
    let read = reader.read().ok();
    MemoryStats {
        time: Some(clock::now()),
        available: None,
        usage: read.map(|memory| memory.usage),
        working_set: Some(read.map_or(0, |memory| memory.working_set())),
    }
}
